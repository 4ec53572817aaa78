"""What it costs to import the package and to start it a second time."""

import json
import os
import resource
import statistics
import subprocess
import sys

import pytest

from bayes_feasible.cli import COMMANDS

USE = """
import json, sys
import bayes_feasible as bf
from numba.core.dispatcher import Dispatcher

instance = bf.instances.end_of_optimism()
bf.optimal_rate(instance)
posterior = bf.Posterior.from_history(instance.problem, [0, 2], *instance.pull([0, 2], seed=0))
alternative = bf.Alternative(instance.problem, instance.best)
alternative.log_probability(posterior)
alternative.sample(posterior, 100_000)

kernels = {
    f"{kernel.__module__}.{kernel.__name__}": kernel.stats
    for name, module in list(sys.modules.items())
    if name.startswith("bayes_feasible")
    for kernel in vars(module).values()
    if isinstance(kernel, Dispatcher)
}
print(json.dumps({
    name: [sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]
    for name, stats in kernels.items()
}))
"""


def _python(code, *arguments, **environment):
    command = [sys.executable, *arguments, "-c", code]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | environment
    )


def _imported(code):
    """The top-level modules that a fresh interpreter has imported after the code."""
    done = _python(f"{code}\nimport sys\nprint(*sorted(sys.modules))")
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


def _median_seconds(code):
    """Of computing, which does not depend on what else the machine is doing."""
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _python(code)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(seconds)


@pytest.mark.parametrize(
    "code",
    [
        "import bayes_feasible.analysis",
        "import bayes_feasible as bf; bf.Posterior, bf.instances, bf.load",
    ],
)
def test_heavy_packages_are_not_imported(code):
    assert not _imported(code) & {"pymc", "pytensor", "arviz", "matplotlib", "nutpie"}


def test_labels_are_not_imported_to_ask_tell_and_simulate():
    """What every process of a study would wait for: xarray brings pandas and, where it is, Dask."""
    code = """
import bayes_feasible as bf
from bayes_feasible.analysis.study import parts
from bayes_feasible.analysis.study import specification

instance = bf.instances.end_of_optimism()
rule = bf.BLFAIPS(instance.problem, seed=0)
rule.tell(rule.ask(), 1.0, 0.2)
print(rule.recommend())
rules = {"Oracle": {}, "TopTwo": {"beta": "optimal", "recommendation": "probable"}}
given = {"instance": {"name": "soare"}, "rules": rules, "horizon": 10, "replicates": 1}
wanted = specification.parse(given)
for part in parts.cut(wanted):
    part()
"""
    assert not _imported(code) & {"xarray", "pandas", "dask", "h5netcdf"}
    assert {"xarray", "pandas"} <= _imported("import xarray")  # the control


def test_what_is_called_once_compiles_nothing():
    done = _python(USE.replace("100_000", "1000"))
    assert not any(map(any, json.loads(done.stdout).values()))


def test_the_import_takes_less_than_a_second():
    assert _median_seconds("import bayes_feasible") < 1.0 + _median_seconds("pass")


@pytest.mark.parametrize(
    "argument",
    [
        "--help",
        "--version",
        *(f"{command.__name__.rpartition('.')[2]} --help" for command in COMMANDS),
    ],
)
def test_help_imports_nothing_heavy(argument):
    code = f"""
import contextlib, io
from bayes_feasible.cli import main
with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
    main({argument.split()!r})
assert "bayes-feasible" in shown.getvalue()
"""
    assert not _imported(code) & {"numpy", "xarray", "numba", "pymc", "matplotlib"}


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    first, second = (
        json.loads(_python(USE, NUMBA_CACHE_DIR=str(tmp_path)).stdout) for _ in range(2)
    )
    drawn = "bayes_feasible.alternative.draws.draw_union"
    assert first[drawn][1] > 0
    assert sum(hits for hits, _ in second.values()) > 0
    assert {name for name, (_, misses) in second.items() if misses} == set()
    assert second[drawn][0] > 0


def test_analysis_names_its_surface():
    from bayes_feasible import analysis

    for name in dir(analysis):
        assert getattr(analysis, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        analysis.nothing  # noqa: B018
