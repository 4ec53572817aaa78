"""`bayes-feasible sample`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands import _state as state
from bayes_feasible.files.atomic import write_netcdf

if TYPE_CHECKING:
    import xarray as xr

    from bayes_feasible.alternative.alternative import Alternative

BROKE_OFF = 1
EPILOG = """\
examples:
  bayes-feasible sample drug.toml --history pulls.csv --candidate "10 mg"
  bayes-feasible sample --instance end_of_optimism --pulls 5000 --out draws.nc
  bayes-feasible sample --instance soare d=3 --rule BLFAIPS --pulls 2000
  bayes-feasible sample --target b --log-probability -400 --sampler smc_events

exit codes:
  0  the draws are there
  1  the sampler broke off
  2  the arguments are not right
"""


def add(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    sample = add_parser(
        "sample",
        help="draw parameters under which the recommendation is wrong",
        description="Draw from the posterior given that a candidate is not the best feasible one,\n"
        "say how probable that is, and save the draws as netCDF.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_common(sample)
    sample.add_argument(
        "--sampler",
        default="exact",
        choices=state.SAMPLERS,
        metavar="NAME",
        help=f"how to draw: {', '.join(state.SAMPLERS)} (exact)",
    )
    sample.add_argument(
        "--cores",
        type=int,
        default=1,
        metavar="N",
        help="processes for the samplers that PyMC drives (1)",
    )
    sample.add_argument("--out", type=Path, metavar="FILE", help="netCDF file to write (.nc)")
    sample.set_defaults(run=run)


def add_common(parser: argparse.ArgumentParser, draws: dict[str, Any] | None = None) -> None:
    """What to draw from, how many, and how to print it; `draws` changes that option."""
    state.add(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    sizes = (
        ("draws", 1000, "of each chain"),
        ("tune", 1000, "iterations before the draws"),
        ("chains", 4, "independent chains"),
    )
    for name, default, text in sizes:
        kind: dict[str, Any] = {
            "type": int,
            "default": default,
            "metavar": "N",
            "help": f"{text} ({default})",
        }
        parser.add_argument(f"--{name}", **kind | (draws or {} if name == "draws" else {}))


def run(options: argparse.Namespace) -> int:
    """Draw, save and print a summary."""
    if options.out is not None and options.out.suffix != ".nc":
        raise ValueError(f"--out: expected a file with the extension .nc, got {options.out}")
    if options.out is not None and not options.out.parent.is_dir():
        raise ValueError(f"--out: there is no folder {options.out.parent}")  # before the work
    if options.out is not None and options.history is not None:
        output.keep(options.history, options.out)
    posterior, alternative = state.state(options)
    from bayes_feasible.analysis.samplers import sample as samplers

    try:
        tree = samplers.sample_alternative(
            posterior, alternative, options.sampler, draws=options.draws, tune=options.tune,
            chains=options.chains, seed=options.seed, cores=options.cores,
            progress=not options.quiet and not options.json,
        )  # fmt: skip
    except samplers.SamplerError as error:
        output.complain("sample", error)
        return BROKE_OFF
    if options.out is not None:
        write_netcdf(options.out, tree)
    if options.json:
        output.show_json(_fields(tree, alternative))
    else:
        output.show(_text(tree, alternative))
    return 0


def _fields(tree: "xr.DataTree", alternative: "Alternative") -> dict[str, Any]:
    """What the command reports, by name."""
    from bayes_feasible._draws import parameter_names
    from bayes_feasible.analysis.samplers.yardstick import convergence, coordinates, occupied

    draws = tree["posterior"].to_dataset()
    values = coordinates(draws)
    inside = occupied(alternative, draws)
    figures = convergence(values) if values.shape[2] >= 4 else {}
    rows = {
        name: {
            "mean": float(values[i].mean()),
            "sd": float(values[i].std(ddof=1)) if values[i].size > 1 else 0.0,
            **{figure: float(figures[figure][i]) for figure in figures},
        }
        for i, name in enumerate(parameter_names(alternative.problem))
    }
    attributes = {
        str(name): value.item() if hasattr(value, "item") else value
        for name, value in tree.attrs.items()
        if not str(name).endswith("_version")
    }
    return {
        **attributes,
        "candidate": alternative.problem.name(alternative.candidate),
        "outside": float(1.0 - inside.any(axis=0).mean()),
        "events": {
            name: float(share)
            for name, share in zip(alternative.events.names, inside.mean(axis=(1, 2)), strict=True)
        },
        "parameters": rows,
    }


def _text(tree: "xr.DataTree", alternative: "Alternative") -> str:
    from bayes_feasible.analysis.report.tables import text_table

    fields = _fields(tree, alternative)
    lines = [
        f"{fields['title']}: posterior given that {fields['candidate']!r} is not the best feasible "
        f"candidate, {tree['posterior'].sizes['chain']} chains of "
        f"{tree['posterior'].sizes['draw']} draws, {fields['seconds']:.3g} s "
        f"(and {fields['compile_seconds']:.3g} s to compile)"
    ]
    if "log_probability" in fields:
        lines.append(
            f"Log-probability of that: {fields['log_probability']:.6g} "
            f"(standard error {fields['log_probability_standard_error']:.2g})"
        )
    if fields["outside"] > 0:
        lines.append(f"Draws outside the alternative set: {100 * fields['outside']:.3g} %")
    header = ["parameter", "mean", "sd"]
    shown = [name for name in ("mcse", "ess_bulk", "ess_tail", "rhat")
             if all(name in row for row in fields["parameters"].values())]  # fmt: skip
    forms = {"mcse": ".2g", "ess_bulk": ",.0f", "ess_tail": ",.0f", "rhat": ".3f"}
    rows = [
        [name, f"{row['mean']:.6g}", f"{row['sd']:.3g}", *(format(row[f], forms[f]) for f in shown)]
        for name, row in fields["parameters"].items()
    ]
    events = sorted(fields["events"].items(), key=lambda item: -item[1])
    likely = [[name, f"{100 * share:.3g} %"] for name, share in events if share > 0][:10]
    return "\n".join(
        [
            *lines,
            "",
            text_table([*header, *shown], rows),
            "",
            "What would be wrong, in which share of the draws",
            text_table(["event", "share"], likely) if likely else "nothing: all are outside",
        ]
    )
