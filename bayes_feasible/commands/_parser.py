"""How commands declare their arguments, and what is said of those that are unknown."""

import argparse
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

from bayes_feasible._display import visible

AddParser = Callable[..., argparse.ArgumentParser]


class Parser(argparse.ArgumentParser):
    """Suggests the closest valid name, and shows no control characters."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit with code 2."""
        super().error(visible(message))

    def refuse(self, surplus: list[str], options: argparse.Namespace) -> NoReturn:
        """Say which arguments are unknown, and what may be meant by the first of them."""
        parser: argparse.ArgumentParser = self
        known: list[str] = []
        while True:
            known += parser._option_string_actions
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction):
                    parser = action.choices[getattr(options, action.dest)]
                    break
            else:
                break
        message = f"unrecognized arguments: {' '.join(surplus)}"
        first = surplus[0].partition("=")[0]
        parser.error(message + (suggest(first, known) if first.startswith("-") else ""))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of the choices; called by argparse for each value."""
        if action.choices is not None and value not in action.choices:
            listed = ", ".join(map(str, action.choices))
            hint = suggest(value, action.choices) or f" (choose from {listed})"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")


def suggest(got: Any, known: Iterable[Any]) -> str:
    """Ask whether the closest of the known names is meant, if any is close.

    >>> suggest("rat", ["study", "rate"])
    "; did you mean 'rate'?"
    """
    by_letters = {str(name).casefold(): name for name in known}
    near = get_close_matches(str(got).casefold(), by_letters, 1)
    return f"; did you mean {by_letters[near[0]]!r}?" if near else ""


def add_command(
    add_parser: AddParser, run: Callable[[argparse.Namespace], Any], name: str, **texts: str
) -> argparse.ArgumentParser:
    """Add a command that `run` carries out, with its help, description and epilog as written."""
    parser = add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter, **texts)
    parser.set_defaults(run=run)
    return parser
