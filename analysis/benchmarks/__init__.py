"""What the package is fast at, measured: `python -m bayes_feasible.analysis.benchmarks`."""
