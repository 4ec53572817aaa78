r"""What a study is to do, read from TOML and checked whole before anything runs.

::

    title = "Which dose?"
    horizon = 100_000                 # pulls of each experiment
    replicates = 32                   # experiments with each rule
    checkpoints = [1000, 10_000, 100_000]   # after how many pulls to look; has a default
    seed = 0

    [instance]                        # a built-in with its parameters
    name = "end_of_optimism"
    alpha = 0.3

    [rules.Oracle]                    # a rule by its own name,
    [rules."BLFAIPS, true posterior"] # or by any name, with its kind and options
    kind = "BLFAIPS"
    eta = 1

    [checks]                          # optional: samplers of PyMC against the exact answer
    samplers = ["exact"]
    checkpoints = [1000]
    rule = "Oracle"                   # whose posterior; the first rule by default

Instead of a built-in, ``[instance]`` may hold ``file = "drug.toml"`` (a problem file with its true
parameters, beside the specification) or what such a file holds. ``rules = ["Oracle", "Uniform"]``
is short for rules without options. Rules and instances of the user's own are named by import path,
``kind = "my_module:MyRule"`` and ``name = "my_module:function"``; their code is then run.
"""

import inspect
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from bayes_feasible import _check
from bayes_feasible._check import unknown
from bayes_feasible._imports import code_of, is_import_path
from bayes_feasible.analysis.study.store import digest, hash_bytes
from bayes_feasible.built_in import build_instance
from bayes_feasible.files.documents import KEYS as PROBLEM_KEYS
from bayes_feasible.files.documents import _strict, build, from_document, to_document
from bayes_feasible.files.guard import MOST_TEXT, blame, read_file
from bayes_feasible.files.problems import load
from bayes_feasible.instance import Instance
from bayes_feasible.rate.rate import quiet_rate
from bayes_feasible.rules import find_rule
from bayes_feasible.simulation.simulate import LONGEST, MOST_REPLICATES, _start, _times

REQUIRED = ("instance", "rules", "horizon", "replicates")
KEYS = ("title", *REQUIRED, "checkpoints", "seed", "checks")
MOST_DRAWS, MOST_CHAINS = 10**6, 100  # of a check, which holds them all in memory
CHECK_KEYS = ("samplers", "checkpoints", "rule", "draws", "chains")

DEFAULT = Path(__file__).with_name("default.toml").read_text(encoding="utf-8")


@dataclass(frozen=True)
class RuleChoice:
    """A rule under the name the study gives it."""

    name: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def maker(self) -> Callable[..., Any]:
        """What `simulate` takes as a rule."""
        found = find_rule(self.kind)
        return partial(found, **self.options) if self.options else found

    def document(self) -> dict[str, Any]:
        """Kind and options, as in the file."""
        return {"kind": self.kind, **dict(sorted(self.options.items()))}

    def meaning(self) -> dict[str, Any]:
        """What results depend on: the document, and the code of a rule that is not ours."""
        return self.document() | _code(self.kind)


@dataclass(frozen=True)
class Checks:
    """Which samplers meet which posteriors: those of one rule's first replicate."""

    samplers: tuple[str, ...]
    checkpoints: tuple[int, ...]
    rule: str
    draws: int = 1000
    chains: int = 4

    def document(self) -> dict[str, Any]:
        """All of it, as in the file."""
        values = asdict(self).items()
        return {key: list(each) if isinstance(each, tuple) else each for key, each in values}


@dataclass(frozen=True)
class Specification:
    """A study, checked: an instance, rules, and how long and how often they run."""

    instance: Instance
    source: dict[str, Any]  # of the instance: a built-in's name and parameters, or all its content
    rules: tuple[RuleChoice, ...]
    horizon: int
    replicates: int
    checkpoints: tuple[int, ...]
    seed: int = 0
    checks: Checks | None = None
    title: str = ""

    def document(self) -> dict[str, Any]:
        """The specification as a table with nothing left to a default or to another file."""
        document: dict[str, Any] = {
            "title": self.title,
            "horizon": self.horizon,
            "replicates": self.replicates,
            "checkpoints": list(self.checkpoints),
            "seed": self.seed,
            "instance": self.source,
            "rules": {rule.name: rule.document() for rule in self.rules},
        }
        if self.checks is not None:
            document["checks"] = self.checks.document()
        return document

    def toml(self) -> str:
        """A file that `read` takes for the same study, wherever it lies."""
        return tomli_w.dumps(self.document())

    def meaning(self) -> dict[str, Any]:
        """What the results depend on, as JSON: the instance's content, whatever its source."""
        rules = _strict({rule.name: rule.meaning() for rule in self.rules})
        document = _strict(self.document()) | {"instance": self.world(), "rules": rules}
        return {key: value for key, value in document.items() if key != "title"}

    def world(self) -> dict[str, Any]:
        """The instance's content, and the code of one that is not ours, as JSON."""
        return to_document(self.instance, strict=True) | _code(self.source.get("name"))

    @cached_property
    def hash(self) -> str:
        """A checksum of what the results depend on."""
        return digest(self.meaning())

    @property
    def times(self) -> np.ndarray:
        """The checkpoints as `simulate` takes them."""
        return np.array(self.checkpoints, dtype=np.int64)

    def rule(self, name: str) -> RuleChoice:
        """The rule of this name."""
        return next(rule for rule in self.rules if rule.name == name)


def _code(name: Any) -> dict[str, str]:
    """A checksum of the code behind an import path."""
    return {"code": hash_bytes(code_of(name))} if is_import_path(name) else {}


def default() -> Specification:
    """The study that runs where none is given: End of Optimism."""
    return parse(tomllib.loads(DEFAULT))


def read(
    path: str | os.PathLike[str] | None, rules: Iterable[str] = (), instance: Any = None
) -> Specification:
    """Read a specification from a TOML file, or take the default; errors start with the path.

    `rules`, names or import paths, are run beside those in the file, `instance` in place of its.
    """

    def change(document: dict[str, Any]) -> dict[str, Any]:
        if instance is not None:
            document["instance"] = instance
        before = document.get("rules", {})
        if rules and isinstance(before, list) and all(isinstance(name, str) for name in before):
            before = {name: {} for name in before}
        if rules and isinstance(before, dict):
            document["rules"] = before | {name: {} for name in rules}
        return document

    if path is None:
        return parse(change(tomllib.loads(DEFAULT)))
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{file}: no such file")
    with blame(file):
        text = read_file(file, most=MOST_TEXT).decode("utf-8-sig")
        return parse(change(tomllib.loads(text)), file.parent)


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Say where a mistake is, in front of its message."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{where}{error}") from error


def parse(document: Mapping[str, Any], folder: str | os.PathLike[str] = ".") -> Specification:
    """Check a specification in a table such as `tomllib` gives.

    Parameters
    ----------
    document : dict
        As in the file. `instance` may also be an `Instance`.
    folder : path
        What the path of a problem file is relative to.

    Raises
    ------
    ValueError
        If something is missing, unknown (with the nearest known name) or impossible.

    Examples
    --------
    >>> parse({"instance": {"name": "soare"}, "rules": ["orcale"], "horizon": 9, "replicates": 1})
    Traceback (most recent call last):
        ...
    ValueError: rules: unknown rule 'orcale'; did you mean 'Oracle'?
    """
    if not isinstance(document, Mapping):
        raise ValueError(f"expected a table of {', '.join(KEYS)}, got {type(document).__name__}")
    _only("", document, KEYS)
    for key in REQUIRED:
        if key not in document:
            raise ValueError(f"{key}: missing")
    title = document.get("title", "")
    _expect(isinstance(title, str), "title", "a text", title)
    horizon = _check.count("horizon", document["horizon"], most=LONGEST)
    replicates = _check.count("replicates", document["replicates"], most=MOST_REPLICATES)
    seed = _check.count("seed", document.get("seed", 0), least=0)
    times = tuple(map(int, _times(document.get("checkpoints"), horizon)))
    # All names first, which is quick; then what has to be built to be checked.
    rules = read_rules(document["rules"])
    checks = _checks(document["checks"], rules, times) if "checks" in document else None
    instance, source = _instance(document["instance"], Path(folder))
    _require_rate(instance)
    for rule in rules:
        _start(rule.name, rule.maker, instance, 0)
    return Specification(instance, source, rules, horizon, replicates, times, seed, checks, title)


def specified(value: Any) -> Specification:
    """Check a specification, whatever describes it."""
    if value is None:
        return default()
    if isinstance(value, Specification):
        return value
    if isinstance(value, Mapping):
        return parse(value)
    if isinstance(value, str | os.PathLike):
        return read(value)
    raise TypeError(
        f"specification: expected a path, a dict or a Specification, got {type(value).__name__}"
    )


def _instance(value: Any, folder: Path) -> tuple[Instance, dict[str, Any]]:
    """The instance, and where it comes from in a form that needs no other file."""
    if isinstance(value, Instance):
        return value, to_document(value)
    _expect(isinstance(value, Mapping), "instance", "a table with name or file", value)
    with _named("instance: "):
        if "name" in value:
            parameters = {key: item for key, item in value.items() if key != "name"}
            return build_instance(value["name"], parameters), dict(value)
        if "file" in value:
            _only("", value, ("file",))
            _expect(isinstance(value["file"], str), "file", "a path", value["file"])
            loaded = load(folder / value["file"])
        else:
            _only("", value, ("name", "file", *PROBLEM_KEYS))
            if "arms" not in value:
                raise ValueError("expected name, file or arms")
            loaded = build(from_document(dict(value)))
    if not isinstance(loaded, Instance):
        raise ValueError("instance: the true parameters are needed, but there is no theta_reward")
    return loaded, to_document(loaded)


def _require_rate(instance: Instance) -> None:
    """Refuse an instance on which there is nothing to find out."""
    rate = quiet_rate(instance).value
    if not 0 < rate < math.inf:
        why = "two candidates tie" if rate == 0 else "no mistake is possible"
        raise ValueError(f"instance: the optimal rate is {rate:g} ({why}): nothing to study")


def read_rules(value: Any) -> tuple[RuleChoice, ...]:
    """Read the rules of a specification: a table of options for each, or names."""
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        _expect(len(set(value)) == len(value), "rules", "distinct names", list(value))
        value = {name: {} for name in value}
    fine = isinstance(value, Mapping) and bool(value)
    _expect(fine, "rules", "a table for each rule, at least one", value)
    return tuple(_rule(str(name), options) for name, options in value.items())


def _rule(name: str, value: Any) -> RuleChoice:
    _expect(bool(name) and name.isprintable(), "rules", "a name that can be printed", name)
    _expect(isinstance(value, Mapping), f"rules.{name}", "a table of options", value)
    options = dict(value)
    kind = options.pop("kind", name)
    with _named(f"rules.{name}: kind: " if "kind" in value else "rules: "):
        known = dict(inspect.signature(find_rule(kind)).parameters)
    for own in ("problem", "seed"):  # the study gives these
        known.pop(own, None)
    if not any(each.kind is each.VAR_KEYWORD for each in known.values()):
        _only(f"rules.{name}: ", options, known, f"option of {kind}")
    return RuleChoice(name, kind, options)


def _checks(value: Any, rules: tuple[RuleChoice, ...], times: tuple[int, ...]) -> Checks:
    _expect(isinstance(value, Mapping), "checks", "a table", value)
    _only("checks: ", value, CHECK_KEYS)
    names = [rule.name for rule in rules]
    rule = value.get("rule", names[0])
    if rule not in names:
        raise ValueError(f"checks: {unknown('rule', rule, names)}")
    if "checkpoints" not in value:
        raise ValueError("checks: checkpoints: missing")
    with _named("checks: "):
        wanted = tuple(map(int, _times(value["checkpoints"], times[-1])))
    for time in wanted:
        if time not in times:
            raise ValueError(
                f"checks: checkpoints: {time} is none of the study's, {', '.join(map(str, times))}"
            )
    chains = value.get("chains", Checks.chains)
    return Checks(
        _samplers(value.get("samplers")),
        wanted,
        rule,
        _check.count("checks: draws", value.get("draws", Checks.draws), most=MOST_DRAWS),
        _check.count("checks: chains", chains, least=2, most=MOST_CHAINS),
    )


def _samplers(value: Any) -> tuple[str, ...]:
    """Names of samplers that the scoreboard knows; its quick ones where none are given."""
    known, quick = known_samplers()
    if value is None:
        return quick
    where, fine = "checks: samplers", isinstance(value, list | tuple) and bool(value)
    _expect(fine, where, "a list of names", value)
    _only(f"{where}: ", value, known, "sampler")
    _expect(len(set(value)) == len(value), where, "distinct names", list(value))
    return tuple(value)


def known_samplers() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """All samplers of the scoreboard, and the quick ones."""
    from bayes_feasible.analysis.samplers import sample

    return tuple(sample.SAMPLERS), tuple(sample.QUICK)


def _expect(fine: bool, where: str, what: str, got: Any) -> None:
    if not fine:
        raise ValueError(f"{where}: expected {what}, got {got!r}")


def _only(where: str, names: Iterable[Any], known: Iterable[str], what: str = "key") -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{where}{unknown(what, name, known)}")
