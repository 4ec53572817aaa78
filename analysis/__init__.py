"""Studies, figures and benchmarks."""
