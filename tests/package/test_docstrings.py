"""Every example in a docstring is run, and every public name has one."""

import doctest
import inspect
import re
from importlib import import_module
from pkgutil import walk_packages

import pytest

import bayes_feasible
import bayes_feasible.analysis as bayes_feasible_analysis
import bayes_feasible.models as bayes_feasible_models
from bayes_feasible import instances

FOLDERS = [bayes_feasible, bayes_feasible_models, bayes_feasible_analysis]
MODULES = [folder.__name__ for folder in FOLDERS] + [
    module.name
    for folder in FOLDERS  # models/ and analysis/ do not lie inside bayes_feasible/
    for module in walk_packages(folder.__path__, f"{folder.__name__}.")
    if "benchmarks" not in module.name
]
# What functions return and nobody makes: their attributes are described.
RETURNED = {
    *("Decision", "Design", "Events", "Forecast", "LogProbability", "Rate", "Recommendation"),
    *("Status", "Study"),
}
PUBLIC = {
    f"{owner.__name__}.{name}": getattr(owner, name)
    for owner, names in (
        (bayes_feasible, set(bayes_feasible._HOME) - RETURNED),
        (instances, [name for name, value in vars(instances).items()
                     if inspect.isfunction(value) and value.__module__ == instances.__name__
                     and not name.startswith("_")]),
        (bayes_feasible_models, bayes_feasible_models.__all__),
    )
    for name in sorted(names)
}  # fmt: skip
# What users of analysis/ call, beside the commands.
DOORS = {
    "arena.arena": ("arena",),
    "arena.entrants": ("read_entrants",),
    "arena.families": ("find_family",),
    "calibration.calibration": (
        "alternative_ranks", "rule_ranks", "model_ranks", "judge", "distribution", "figure",
    ),
    "study.convergence": ("summarise", "table"),
    "evidence.best": ("probability_best",),
    "evidence.evidence": ("log_error",),
    "planning.decisions": ("decide",),
    "planning.files": ("read_design",),
    "planning.plan": ("plan",),
    "report.figures": ("accuracy", "draw_study"),
    "report.geometry": ("geometry",),
    "study.lower_bound": ("check",),
    "calibration.reliability": ("reliability", "rule_reliability", "reliability_table"),
    "report.report": ("write", "write_headline"),
    "report.trial_page": ("write",),
    "samplers.board": ("board",),
    "samplers.database": ("write_targets", "check_targets"),
    "samplers.own": ("check_sampler",),
    "samplers.sample": ("sample_alternative",),
    "samplers.scoreboard": ("scoreboard", "judge", "table"),
    "study.study": ("study", "posteriors"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


def sections(documented):
    """The sections of a docstring in numpydoc style, by name."""
    parts = re.split(r"^(\w+)\n-+$", inspect.getdoc(documented) or "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def lacking(documented):
    """The sections that a docstring should have and does not."""
    found = sections(documented)
    wanted = {"Examples"}
    if inspect.isclass(documented):
        described = {"Parameters", "Attributes"} & set(found)
        wanted |= set() if described else {"Parameters"}
    else:
        signature = inspect.signature(documented)
        wanted |= {"Parameters"} if signature.parameters else set()
        wanted |= {"Returns"} if signature.return_annotation not in (None, "None") else set()
    if ">>> " not in found.get("Examples", ""):
        found.pop("Examples", None)
    return sorted(wanted - set(found))


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_described_with_an_example(name):
    assert lacking(PUBLIC[name]) == []


@pytest.mark.parametrize("name", sorted(RETURNED))
def test_what_functions_return_is_described(name):
    assert "Attributes" in sections(getattr(bayes_feasible, name))


@pytest.mark.parametrize("module", DOORS)
def test_doors_of_the_analysis_have_examples(module):
    owner = import_module(f"bayes_feasible.analysis.{module}")
    for name in DOORS[module]:
        assert ">>> " in sections(getattr(owner, name)).get("Examples", ""), name


def methods(kind):
    """The public methods of a class of ours and of its bases, by name."""
    return {
        name: value.__func__ if isinstance(value, classmethod | staticmethod) else value
        for base in reversed(kind.__mro__)
        if base.__module__.startswith("bayes_feasible")
        for name, value in vars(base).items()
        if not name.startswith("_")
        and inspect.isfunction(getattr(value, "__func__", value))
    }  # fmt: skip


CLASSES = sorted(name for name, value in PUBLIC.items() if inspect.isclass(value))


@pytest.mark.parametrize("name", CLASSES)
def test_methods_are_called_in_an_example(name):
    """Of their own, or of their class, or of the class that they come from."""
    kind = PUBLIC[name]
    bases = [base for base in kind.__mro__ if base.__module__.startswith("bayes_feasible")]
    examples = "".join(sections(base).get("Examples", "") for base in bases)
    for method, value in methods(kind).items():
        own = sections(value).get("Examples", "")
        assert re.search(rf"\.{method}\(", examples + own), method


def test_what_lacks_a_section_is_found():
    def bare(x) -> int:
        """Add one."""

    def full(x) -> int:
        """Add one.

        Parameters
        ----------
        x : int

        Returns
        -------
        int

        Examples
        --------
        >>> full(1)
        2
        """

    assert lacking(bare) == ["Examples", "Parameters", "Returns"]
    assert lacking(full) == []
    assert len(PUBLIC) >= 40
    assert len(CLASSES) >= 18
    assert "log_probability" in methods(bayes_feasible.Alternative)
    assert "ask" in methods(bayes_feasible.BLFAIPS)
