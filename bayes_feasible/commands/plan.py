"""`bayes-feasible plan`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands import _resumable as resumable

if TYPE_CHECKING:
    from bayes_feasible.analysis.planning.files import DesignFile

EPILOG = (
    """\
examples:
  bayes-feasible plan dose_design.toml                    operating characteristics
  bayes-feasible plan dose_design.toml --decisions 2 --seen toxicity
  bayes-feasible plan dose_design.toml --budgets 30 60 90 120 --error 0.1

With --out the same command again goes on where the last one stopped.

"""
    + resumable.EXIT_CODES
)


def add(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    plan = add_parser(
        "plan",
        help="what a design will do: operating characteristics, decisions, the budget",
        description="Simulate trials of a design under scenarios: how often each candidate is\n"
        "chosen, how often wrongly, pulls beyond a limit, sample sizes; or its decisions.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("file", type=Path, metavar="FILE", help="the design (.toml)")
    plan.add_argument(
        "--decisions", type=int, metavar="N", help="instead, what is done after the first N batches"
    )
    plan.add_argument(
        "--seen", nargs="+", metavar="NAME", help="with --decisions: outcomes that are told in time"
    )
    plan.add_argument(
        "--error", type=float, metavar="P",
        help="name the smallest budget whose answers are wrong at most so often",
    )  # fmt: skip
    plan.add_argument("--budgets", nargs="+", type=int, metavar="N", help="instead of the file's")
    plan.add_argument("--replicates", type=int, metavar="N", help="trials a scenario")
    plan.add_argument("--seed", type=int, metavar="N", help="of it all")
    plan.add_argument("--out", type=Path, metavar="DIR", help="keep finished parts there")
    resumable.add_place(plan)
    plan.add_argument("--quiet", action="store_true", help="show no progress")
    plan.add_argument("--json", action="store_true", help="print JSON instead of a table")
    plan.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Simulate the design, or list its decisions."""
    from bayes_feasible.analysis.planning.files import read_design

    found = read_design(options.file)
    if options.decisions is not None:
        _decide(found, options)
        return 0
    if options.seen:
        raise ValueError("--seen: has no meaning without --decisions")
    return resumable.carry_out("plan", lambda: _plan(found, options))


def _plan(found: "DesignFile", options: argparse.Namespace) -> None:
    from bayes_feasible.analysis.planning.plan import plan

    done = plan(
        found.design,
        found.scenarios,
        options.budgets or found.budgets,
        replicates=found.replicates if options.replicates is None else options.replicates,
        seed=found.seed if options.seed is None else options.seed,
        out=options.out,
        workers=options.workers,
        dask=options.dask,
        progress=False if options.quiet else None,
    )
    budgets = [] if options.error is None else done.smallest_budget(options.error)
    if options.json:
        fields: dict[str, Any] = {"scenarios": done.to_dict()}
        if budgets:
            fields["smallest_budget"] = {
                one.scenario: {"estimate": one.estimate, "sure": one.sure} for one in budgets
            }
        output.show_json(fields)
        return
    lines = [str(done)]
    if budgets:
        lines.append(f"\nSmallest budget for an error of {options.error:g}:")
        for one in budgets:
            none = "more than was simulated"
            lines.append(
                f"  {one.scenario}: {one.estimate or none}; surely (95 %): {one.sure or none}"
            )
    output.show("\n".join(lines))


def _decide(found: "DesignFile", options: argparse.Namespace) -> None:
    from bayes_feasible.analysis.planning.decisions import decide
    from bayes_feasible.analysis.planning.scenarios import read_scenarios
    from bayes_feasible.analysis.report.tables import text_table

    named = read_scenarios(found.design.problem, found.scenarios)
    truths = {one.name: found.scenarios[one.name] for one in named if one.truth is not None}
    decisions = decide(found.design, truths or None, options.decisions, seen=options.seen,
                       seed=found.seed if options.seed is None else options.seed)  # fmt: skip
    table = decisions.table()
    if options.json:
        output.show_json([dict(zip(table.header, row, strict=True)) for row in table.rows])
    else:
        output.show(text_table(table.header, table.rows))
