"""`bayes-feasible rate`."""

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands import _source as source
from bayes_feasible.commands._parser import AddParser, add_command

if TYPE_CHECKING:
    from xarray import DataArray

    from bayes_feasible.instance import Instance
    from bayes_feasible.rate.rate import Rate

SHOWN = 20  # rows of a table
SMALLEST = 5e-7  # a share that does not round to nothing
PICTURES = (".png", ".svg", ".pdf")

DESCRIPTION = """\
The fastest possible decay of the probability of error, with a certificate, the
allocation of pulls that reaches it, and the mistake hardest to rule out. A rate
of 0.01 nats per pull: in the long run each pull divides the probability of
error by e^0.01, so that about 69 pulls halve it.
"""
EPILOG = """\
examples:
  bayes-feasible rate drug.toml --figure drug.png
  bayes-feasible rate --instance end_of_optimism alpha=0.2
  bayes-feasible rate --instance random_ball d=5 k=20 seed=1 --json
"""


def add(add_parser: AddParser) -> None:
    """Declare the arguments."""
    rate = add_command(
        add_parser,
        run,
        "rate",
        help="the optimal rate of an instance",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    source.add(rate)
    rate.add_argument("--json", action="store_true", help="print JSON instead of tables")
    rate.add_argument(
        "--figure",
        type=Path,
        metavar="PATH",
        help="draw the exponent of each candidate: a .png, .svg or .pdf file",
    )


def run(options: argparse.Namespace) -> None:
    """Print the rate, and draw it if asked to."""
    if options.figure is not None and options.figure.suffix.lower() not in PICTURES:
        raise ValueError(
            f"--figure: expected the extension {', '.join(PICTURES)}, got {options.figure.suffix!r}"
        )
    instance = source.instance(options)
    from bayes_feasible.rate.rate import optimal_rate

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rate = optimal_rate(instance)
    for warning in caught:
        output.complain("rate", f"warning: {warning.message}")
    if options.figure is not None:
        _draw(instance, options.figure)
    if options.json:
        output.show_json(_rate_fields(instance, rate))
    else:
        output.show(_rate_text(instance, rate))


def _draw(instance: "Instance", path: Path) -> None:
    from bayes_feasible.analysis.report import style
    from bayes_feasible.analysis.report.geometry import exponents
    from bayes_feasible.files.atomic import replaced

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # told already; or letters that the font lacks
        axes = exponents(instance)
        figure = axes.get_figure(root=True)
        assert figure is not None
        with replaced(path) as temporary:
            style.write(figure, temporary)


def _rate_fields(instance: "Instance", rate: "Rate") -> dict[str, Any]:
    """What the command reports, by name."""
    problem = instance.problem
    return {
        "rate": rate.value,
        "lower": rate.lower,
        "upper": rate.upper,
        "best": "none" if instance.best is None else problem.name(instance.best),
        "hardest": None if rate.hardest is None else problem.name(rate.hardest),
        "mistake": rate.mistake,
        "allocation": _by_name(rate.allocation),
        "exponents": _by_name(rate.exponents),
    }


def _by_name(values: "DataArray") -> dict[str, float]:
    names = values.coords[values.dims[0]].values
    return {str(name): float(value) for name, value in zip(names, values.values, strict=True)}


def _rate_text(instance: "Instance", rate: "Rate") -> str:
    fields = _rate_fields(instance, rate)
    hardest = "nothing: no mistake is possible"
    if rate.hardest is not None:
        hardest = f"{fields['hardest']} ({fields['mistake']})"
    shares = sorted(fields["allocation"].items(), key=lambda item: -item[1])
    kinds = dict(zip(fields["exponents"], instance.kind, strict=True))
    exponents = sorted(fields["exponents"].items(), key=lambda item: item[1])
    return "\n".join(
        [
            f"Γ = {rate.value:.10g} nats per pull, certified to lie between "
            f"{rate.lower:.12g} and {rate.upper:.12g}",
            f"Best feasible candidate: {fields['best']}",
            f"Hardest to rule out: {hardest}",
            "",
            "Optimal allocation w*: arms that get pulls, and their shares",
            _first_rows(
                ["arm", "share"],
                [[arm, f"{share:.6f}"] for arm, share in shares if share >= SMALLEST],
            ),
            "",
            "Exponent of each candidate under w*: the smallest is Γ",
            _first_rows(
                ["candidate", "exponent", "kind"],
                [[name, f"{value:.8g}", str(kinds[name])] for name, value in exponents],
            ),
        ]
    )


def _first_rows(header: list[str], rows: list[list[str]]) -> str:
    """A table that fits a screen."""
    from bayes_feasible.analysis.report.tables import text_table

    table = text_table(header, rows[:SHOWN])
    hidden = len(rows) - SHOWN
    return f"{table}\n... and {hidden} more (--json shows all)" if hidden > 0 else table
