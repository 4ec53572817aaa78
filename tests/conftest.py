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

# One process begins with the file that compiles most of our own code, the other with the one that
# compiles most of PyMC's: what one has compiled is then on the disk for both.
FIRST = ("test_rules.py", "test_samplers.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in FIRST)
