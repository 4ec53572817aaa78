"""The experiments and claims of the paper, run and reported."""
