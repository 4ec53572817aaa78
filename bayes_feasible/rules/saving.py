"""Rules as documents: everything there is to one, and the refusal of what no pulls led to."""

import hashlib
import json
from collections.abc import Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_feasible import _check
from bayes_feasible._at_once import at_once
from bayes_feasible._check import Array
from bayes_feasible.files.documents import build, from_document, to_document
from bayes_feasible.rules import RULES, engine
from bayes_feasible.rules.engine import KEPT
from bayes_feasible.rules.hedge import Learner

if TYPE_CHECKING:
    from bayes_feasible.rules.base import Rule

ROUNDING = 1e-3  # of them, at the very most: beyond it they were not computed from the rest
FILE_ERRORS = (
    LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


def options_of(kind: "type[Rule]", settings: Mapping[str, Any]) -> dict[str, Any]:
    """A rule's settings as options of its class, which may take an allocation or have its own."""
    options = dict(settings)
    followed = options.pop("allocation_followed", None)
    if followed is not None and "allocation" in signature(kind).parameters:
        options["allocation"] = followed
    return options


def rule_document(rule: "Rule") -> dict[str, Any]:
    """All there is to a rule, as a document for JSON."""
    document = {
        "rule": type(rule).__name__,
        "recommendation": rule.recommendation,
        "settings": {name: getattr(rule, name) for name in rule.settings},
        "problem": to_document(rule.problem, strict=True),
        "generators": [g.bit_generator.state for g in (rule._rng, rule._recommend_rng)],
        "state": {name: array.tolist() for name, array in rule._arrays().items()},
    }
    return document | {"checksum": _checksum(document)}


def rule_from_document(document: dict[str, Any]) -> "Rule":
    """The rule again; any of `FILE_ERRORS` if that is no such document."""
    if document.pop("checksum") != _checksum(document):
        raise ValueError("the checksum does not agree: the file was changed")
    kind = RULES[document["rule"]]
    problem, method = build(from_document(document["problem"])), document["recommendation"]
    rule = kind(problem, recommendation=method, **options_of(kind, document["settings"]))
    rule._resume(document["settings"])
    for generator, state in zip(
        (rule._rng, rule._recommend_rng), document["generators"], strict=True
    ):
        generator.bit_generator.state = state
    if np.any(document["state"]["missing"]):
        rule._take_apart()
    for name, array in rule._arrays().items():
        _fill(name, array, document["state"][name])
    _check_state(rule)
    rule._check_memory()
    return rule


def check_shares(name: str, shares: Array) -> None:
    """Refuse what are no shares."""
    if shares.min() < 0 or abs(shares.sum() - 1) > 1e-9:
        raise ValueError(f"{name}: expected shares with sum 1, got {shares}")


def check_learner(learner: Learner) -> None:
    """Refuse a max-learner that no losses could have led to."""
    check_shares("weights", learner.weights)
    if learner.gap[0] < 0:
        raise ValueError(f"gap: expected no negative number, got {learner.gap[0]}")


def _checksum(document: dict[str, Any]) -> str:
    """Of what the document says, however it is laid out."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _fill(name: str, array: Array, numbers: Any) -> None:
    """Write numbers from a file into an array."""
    saved = np.array(numbers, dtype=float)
    if saved.shape != array.shape and saved.size:
        raise ValueError(f"{name}: expected shape {array.shape}, got {saved.shape}")
    if not np.all(np.isfinite(saved)):
        raise ValueError(f"{name}: expected finite numbers")
    with np.errstate(invalid="ignore"):  # beyond the largest integer: told below
        array[...] = saved.reshape(array.shape)
    if np.any(array != saved.reshape(array.shape)):
        raise ValueError(f"{name}: expected whole numbers")


def _check_state(rule: "Rule") -> None:
    """Refuse a state that no pulls could have led to."""
    state = rule._state
    for name in ("counts", "missing", "squares", "clock", "variances"):
        if (least := getattr(state, name).min()) < 0:
            raise ValueError(f"{name}: expected no negative number, got {least}")
    if np.any(state.pulls < state.counts):
        raise ValueError("pulls: expected at least as many as counts")
    if np.any(state.missing > state.counts[:, np.newaxis]):
        raise ValueError("missing: expected at most as many as counts")
    if state.clock[1] != state.pulls.sum():
        raise ValueError(f"clock: expected {state.pulls.sum()} pulls, got {state.clock[1]}")
    seen = state.counts[:, np.newaxis] - state.missing
    if np.any((seen == 0) & (state.sums != 0)):
        raise ValueError("counts: an arm with a sum that is not 0 was never pulled")
    if np.abs(state.sums).max() > _check.LARGEST:
        raise ValueError(f"sums: expected at most {_check.LARGEST:g}")
    for outcome, sums, number in zip(rule.problem.outcomes, state.sums.T, seen.T, strict=True):
        outcome.check("sums", sums, number)
    _check_kept(rule)


def _check_kept(rule: "Rule") -> None:
    """Refuse what is kept for speed where it does not follow from the counts and sums."""
    state, geometry = rule._state, rule._geometry
    fresh = state._replace(**{name: getattr(state, name).copy() for name in KEPT})
    at_once(engine.refresh)(rule._effort, geometry, fresh, rule._work)
    root, found = np.sqrt(fresh.variances), np.sqrt(state.variances)
    shape = (-1, len(geometry.candidates))
    spread = fresh.noise[:, np.newaxis] * root.reshape(shape)[geometry.place]
    of_mean, of_root = _rounding(rule)
    allowed = ROUNDING * (spread + np.abs(fresh.candidate_means)) + of_mean
    vectors = geometry.vectors.reshape(*shape, geometry.arms.shape[1])[geometry.place]
    seen = np.einsum("bzr,br->bz", vectors, state.means)
    size = np.linalg.norm(fresh.lower, axis=1, keepdims=True)
    allowed_root = ROUNDING * root + np.tile(of_root, len(vectors))[: root.size]
    off = {
        "candidate_means": np.abs(state.candidate_means - fresh.candidate_means) > allowed,
        "means": np.abs(seen - fresh.candidate_means) > allowed,
        "variances": np.abs(found - root) > allowed_root,
        "lower": np.abs(state.lower - fresh.lower) > ROUNDING * size,
        "noise": np.abs(state.noise - fresh.noise) > ROUNDING * fresh.noise,
        "freedom": state.freedom != fresh.freedom,
        "info": np.abs(state.info - fresh.info) > ROUNDING * fresh.info,
    }
    for name, wrong in off.items():
        if wrong.any():
            raise ValueError(f"{name}: does not go with the counts and sums")


def _rounding(rule: "Rule") -> tuple[Array, Array]:
    """What rounding may do to the candidates' means and to the roots of their variances.

    It is seen where arms are very long and leave a direction to the prior: that, of size 1, then
    stands beside the squares of their lengths.
    """
    geometry = rule._geometry
    unit = 64 * np.finfo(float).eps * geometry.arms.shape[1]
    of_root = unit * np.linalg.norm(geometry.candidates, axis=1)
    sizes = np.linalg.norm(geometry.arms, axis=1)
    shown = np.abs(rule._state.sums[:, geometry.columns]).T @ sizes
    if unit * sizes.max() > ROUNDING:  # the prior is lost beside them: anything may come of it
        return np.full((shown.size, of_root.size), np.inf), np.full(of_root.size, np.inf)
    return shown[:, np.newaxis] * of_root, of_root
