"""`bayes-feasible arena`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands import _resumable as resumable

if TYPE_CHECKING:
    from bayes_feasible.analysis.arena.result import Arena

EPILOG = (
    """\
examples:
  bayes-feasible arena --quick                       all rules in all families, in minutes
  bayes-feasible arena --rule my_module:MyRule       yours among them
  bayes-feasible arena --only Descent TopTwo --instances my_module:family problems/
  bayes-feasible arena --list                        the field and the families

The same command again goes on where the last one stopped; with more runs, rules
or families it computes only those.

"""
    + resumable.EXIT_CODES
)


def add(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    arena = add_parser(
        "arena",
        help="compare rules, yours too, over families of instances",
        description="Have rules play on families of instances, paired by seed, and compare their\n"
        "errors: a leaderboard, a table and a figure for each family, one page.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arena.add_argument(
        "--out", type=Path, default=Path("arena"), metavar="DIR", help="its folder (arena)"
    )
    arena.add_argument(
        "--rule", action="append", default=[], metavar="NAME",
        help="this rule too: one of ours, or my_module:MyRule; may be given again",
    )  # fmt: skip
    arena.add_argument(
        "--only", nargs="+", metavar="NAME", help="these rules instead of the whole field"
    )
    arena.add_argument(
        "--family", nargs="+", default=[], metavar="NAME", help="only these families"
    )
    arena.add_argument(
        "--instances", nargs="+", default=[], metavar="WHERE",
        help="your own families: my_module:function, a problem file or a folder of them; alone, or "
        "beside those of --family",
    )  # fmt: skip
    arena.add_argument(
        "--budgets", nargs="+", type=int, metavar="T", help="numbers of pulls (100 ... 5000)"
    )
    arena.add_argument("--runs", type=int, metavar="N", help="runs of each rule in a family (1000)")
    arena.add_argument("--seed", type=int, default=0, metavar="N", help="of it all (0)")
    arena.add_argument(
        "--quick", action="store_true", help="64 runs up to 1000 pulls where nothing else is said"
    )
    when = arena.add_mutually_exclusive_group()
    when.add_argument(
        "--stop-error", type=float, metavar="P",
        help="also play until the posterior probability of error is at most P",
    )  # fmt: skip
    when.add_argument(
        "--stop-delta", type=float, metavar="P",
        help="also play until the evidence bounds the chance of a wrong answer by P",
    )  # fmt: skip
    resumable.add_place(arena)
    arena.add_argument("--list", action="store_true", help="list the field and the families")
    arena.add_argument("--quiet", action="store_true", help="print nothing but errors")
    arena.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arena.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the arena, or go on with it; print the leaderboard."""
    from bayes_feasible.analysis.arena.arena import arena
    from bayes_feasible.analysis.arena.entrants import FIELD
    from bayes_feasible.analysis.arena.families import FAMILIES
    from bayes_feasible.analysis.arena.guests import GUESTS
    from bayes_feasible.stopping.stop import Stop

    if options.list:
        lines = ["The field:", *(f"  {name}" for name in FIELD), "", "Families:"]
        lines += [f"  {family.name}: {family.title}" for family in FAMILIES.values()]
        lines += ["", "Guests, with the extra peers:", *(f"  {name}" for name in GUESTS)]
        output.show("\n".join(lines))
        return 0
    stop = None
    if options.stop_error is not None or options.stop_delta is not None:
        stop = Stop(error=options.stop_error, delta=options.stop_delta)
    names = [*(FIELD if options.only is None else options.only), *options.rule]

    def work() -> None:
        found = arena(
            list(dict.fromkeys(names)),
            [*options.family, *options.instances] or None,
            budgets=options.budgets,
            runs=options.runs,
            seed=options.seed,
            out=options.out,
            workers=options.workers,
            dask=options.dask,
            quick=options.quick,
            stop=stop,
            progress=not options.quiet,
        )
        _show(found, options)

    return resumable.carry_out("arena", work)


def _show(found: "Arena", options: argparse.Namespace) -> None:
    from bayes_feasible.analysis.arena import page
    from bayes_feasible.analysis.report.tables import text_table

    if options.json:
        output.show_json(_fields(found))
    elif not options.quiet:
        board = found.tables()[0]
        lines = [text_table(board.header, board.rows), "", page.write_headline(found.leaderboard())]
        output.show("\n".join([*lines, f"To read, in a browser: {options.out / page.PAGE}"]))


def _fields(found: "Arena") -> dict[str, Any]:
    """The leaderboard by rule, and the errors by family, rule and budget."""
    board, error = found.leaderboard(), found.summary.error
    ranks = {
        str(rule): {str(name): board[name].values[i].item() for name in board.data_vars}
        for i, rule in enumerate(board.rule.values)
    }
    errors: dict[str, dict[str, dict[str, float]]] = {}
    for family in error.family.values:
        for rule in error.rule.values:
            one = error.sel(family=family, rule=rule)
            by_budget = dict(zip(map(str, one.budget.values), map(float, one), strict=True))
            errors.setdefault(str(family), {})[str(rule)] = by_budget
    return {"leaderboard": ranks, "error": errors}
