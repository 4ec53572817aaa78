"""Real data: MovieLens ratings and IMDb scores."""
