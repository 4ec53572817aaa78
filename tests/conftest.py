"""Settings shared by all tests."""

import signal

from hypothesis import HealthCheck, settings

# The same examples on every run and machine; nothing that depends on how fast it is: Numba compiles
# on first use, and others may be using it.
settings.register_profile(
    "bayes_feasible",
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("bayes_feasible")

# A shell has what it starts with & ignore Ctrl-C, and so would the processes that tests start and
# then interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
