"""The command `bayes-feasible`.

Nothing heavy is imported before it is needed, so that help and mistakes answer at once.
"""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

from bayes_feasible._interrupt import heeded
from bayes_feasible.commands import _output as output
from bayes_feasible.commands import (
    arena,
    check,
    diagnose,
    doctor,
    plan,
    rate,
    report,
    sample,
    study,
    targets,
    trial,
)  # fmt: skip
from bayes_feasible.commands._parser import Parser

# In the order of the help.
COMMANDS = (study, arena, rate, plan, trial, check, sample, diagnose, targets, report, doctor)

EXIT_CODES = """\
exit codes:
  0    done
  1    it had to stop, could not print what it did, or found something not sound
  2    the arguments or a file are not right; nothing was done
  130  stopped by Ctrl-C
  141  whoever read the output, such as `head`, went away
  143  a study, an arena or a plan was stopped by a SIGTERM
"""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of disks
STOPPED = 1
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
    _prepare_streams()
    name = ""
    try:
        parser = _parser()
        options, surplus = parser.parse_known_args(arguments)
        if surplus:
            parser.refuse(surplus, options)
        name = options.command
        _check_folder()
        with heeded():
            return options.run(options) or 0
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _leave_output()
        return BROKEN_PIPE
    except output.Unwritten as error:
        _leave_output()
        output.complain(name, error)
        return STOPPED
    except MemoryError as error:
        output.complain(name, f"there is not enough memory ({error})")
        return STOPPED
    except (TypeError, ValueError, OSError) as error:
        output.complain(name, error)
        return STOPPED if _try_again(error) else BAD_INPUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _prepare_streams() -> None:
    """Never fail to report a step that was taken: a name that cannot be shown, a closed stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell, as with `>&-`
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _check_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise FileNotFoundError("the folder it is run in does not exist any more") from None


def _try_again(error: Exception) -> bool:
    """Whether what was asked was right: the disk is full, or others hold the file."""
    reason = error.__cause__ or error
    return isinstance(error, TimeoutError) or getattr(reason, "errno", None) in FULL


def _leave_output() -> None:
    """Do not try again at the end what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Version(argparse.Action):
    """Look the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import bayes_feasible

        output.show(f"bayes-feasible {bayes_feasible.__version__}")
        parser.exit()


def _parser() -> Parser:
    parser = Parser(
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
