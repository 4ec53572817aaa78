"""Settings shared by all tests."""

from hypothesis import settings

# The same examples on every run and machine; no deadline, because Numba compiles on first use.
settings.register_profile("bayes_feasible", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("bayes_feasible")
