"""Settings shared by all tests."""

import os
import signal

from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

# PyTensor notes for every variable where it was made, which takes a tenth of its time.
os.environ.setdefault("PYTENSOR_FLAGS", "traceback__limit=0")

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

# Files that compile the same and so run in the same process.
TOGETHER = {
    "tests/models/test_rate_regression.py": "tests/analysis/study/test_convergence_verdict.py"
}


class FilesTogether(LoadFileScheduling):
    def _split_scope(self, nodeid):
        file = super()._split_scope(nodeid)
        return TOGETHER.get(file, file)


def pytest_xdist_make_scheduler(config, log):
    return FilesTogether(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in FIRST)
