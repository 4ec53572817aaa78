"""Problems, histories and everything else on disk."""
