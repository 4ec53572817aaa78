"""The command `bayes-feasible`.

Nothing heavy is imported before it is needed, so that help and mistakes answer at once.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from bayes_feasible._interrupt import heeded
from bayes_feasible.commands import check, diagnose, doctor, rate, report, sample, study, trial

COMMANDS = (study, rate, trial, check, sample, diagnose, report, doctor)  # in the order of the help

EXIT_CODES = """\
exit codes:
  0    done
  1    a study or a sampler had to stop, or something is not sound: see COMMAND --help
  2    the arguments or a file are not right; nothing was done
  130  stopped by Ctrl-C
  141  whoever read the output, such as `head`, went away
  143  a study was stopped by a SIGTERM
"""

BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the name of the command; taken from the command line by default.
    """
    for stream in (sys.stdout, sys.stderr):  # never fail to report a step that was taken
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    try:
        with heeded():
            code = options.run(options)
            sys.stdout.flush()
    except (ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        print(f"bayes-feasible {options.command}: {_one_line(error)}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return code or 0


def _one_line(error: Exception) -> str:
    return " ".join(str(error).splitlines())


class _Version(argparse.Action):
    """Look the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import bayes_feasible

        print(f"bayes-feasible {bayes_feasible.__version__}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bayes-feasible",
        description="Find the best option that meets its constraints, and know how sure that is.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands.add_parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
