"""`bayes-feasible study`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands import _resumable as resumable
from bayes_feasible.commands import _source as source

if TYPE_CHECKING:
    from bayes_feasible.analysis.study.study import Study

EPILOG = (
    """\
examples:
  bayes-feasible study                          the End of Optimism study
  bayes-feasible study --template > mine.toml   its specification, to be changed
  bayes-feasible study mine.toml --out mine     your own
  bayes-feasible study mine.toml --out mine --dask tcp://10.0.0.1:8786
  bayes-feasible study --rule my_module:MyRule --out mine

The same command again goes on where the last one stopped and re-uses all that
is finished; the numbers are the same however often it was stopped and wherever
it ran. A part whose file was damaged is computed again.

"""
    + resumable.EXIT_CODES
)


def add(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    study = add_parser(
        "study",
        help="run rules on an instance many times: does the error fall at the optimal rate?",
        description="Run rules on an instance many times and say, for each, whether its\n"
        "probability of error falls at the optimal rate, how fast, and how sure that is.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    study.add_argument(
        "specification",
        nargs="?",
        type=Path,
        metavar="SPEC.toml",
        help="what to do; without it, the End of Optimism study",
    )
    study.add_argument(
        "--out", type=Path, default=Path("study"), metavar="DIR", help="its folder (study)"
    )
    study.add_argument(
        "--rule", action="append", default=[], metavar="NAME",
        help="run this rule too: one of ours, or my_module:MyRule; may be given again",
    )  # fmt: skip
    study.add_argument(
        "--instance", nargs="+", metavar=("NAME", "KEY=VALUE"),
        help="run on this instance instead: a built-in one, or my_module:function",
    )  # fmt: skip
    resumable.add_place(study)
    changed = study.add_mutually_exclusive_group()
    changed.add_argument(
        "--extend",
        action="store_true",
        help="if the specification has changed, keep the parts that still apply",
    )
    changed.add_argument(
        "--restart", action="store_true", help="give up the study that is in the folder"
    )
    study.add_argument(
        "--results-only",
        action="store_true",
        help="stop after results.nc: no checks, verdict, figures or report",
    )
    study.add_argument("--quiet", action="store_true", help="print nothing but errors")
    study.add_argument("--json", action="store_true", help="print JSON instead of tables")
    study.add_argument(
        "--template", action="store_true", help="print the default specification and exit"
    )
    study.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the study, or go on with it; print its tables and the files it made."""
    from bayes_feasible.analysis.study import specification

    if options.template:
        output.show(specification.DEFAULT)
        return 0
    from bayes_feasible.analysis.study.study import study

    def work() -> None:
        found = study(
            specification.read(options.specification, options.rule, source.named(options)),
            options.out,
            workers=options.workers,
            dask=options.dask,
            restart=options.restart,
            extend=options.extend,
            only_results=options.results_only,
            progress=not options.quiet,
        )
        _show(found, options)

    return resumable.carry_out("study", work)


def _show(found: "Study", options: argparse.Namespace) -> None:
    for note in found.notes:
        output.complain("study", note)
    if options.json:
        output.show_json(_fields(found))
    elif not options.quiet:
        from bayes_feasible.analysis.report.report import PAGE, write_headline

        lines = [found.tables(), "", f"Written in {found.folder}:"]
        lines += [f"  {path.relative_to(found.folder)}" for path in found.files]
        if found.summary is not None:
            lines += ["", write_headline(found.summary)]
            lines += [f"To read, in a browser: {found.folder / PAGE}"]
        output.show("\n".join(lines))


def _fields(found: "Study") -> dict[str, Any]:
    """What the command reports, by name."""
    fields: dict[str, Any] = {
        "folder": str(found.folder),
        "hash": found.specification.hash,
        "parts": {"computed": found.computed, "reused": found.reused},
        "rate": {name: float(found.optimum[name]) for name in ("rate", "rate_lower", "rate_upper")},
        "files": [str(path) for path in found.files],
    }
    if found.summary is not None:
        fields["rules"] = _by("rule", found.summary)
    if found.scoreboard:
        fields["samplers"] = {
            str(time): _by("sampler", board) for time, board in found.scoreboard.items()
        }
    return fields


def _by(dim: str, dataset: Any) -> dict[str, dict[str, Any]]:
    """The variables of one value for each label of a dimension."""
    names = [name for name, variable in dataset.data_vars.items() if variable.dims == (dim,)]
    return {
        str(label): {str(name): dataset[name].values[i].item() for name in names}
        for i, label in enumerate(dataset[dim].values)
    }
