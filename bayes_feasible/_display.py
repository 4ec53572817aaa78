"""Text that others wrote, as it may be displayed: it steers no terminal and breaks no document.

Names of arms and paths of files may hold characters that move the cursor, turn the direction of
what follows, or are not allowed in XML. They are displayed by their numbers.
"""

import json
import re
from typing import Any

# Controls but for tabs and line breaks, the controls of direction, surrogates, and what is no
# character of XML.
STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    r"\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    r"""Give a text for terminals, figures and pages, with control characters by their numbers.

    >>> visible("\x1b[31mred"), visible("\u202egnp")
    ('\\x1b[31mred', '\\u202egnp')
    """
    return STEERING.sub(lambda found: _number(found[0], "\\x{:02x}"), text)


def visible_json(value: Any) -> str:
    r"""Give JSON that says the same, with control characters by their numbers.

    >>> print(visible_json("\x9b31m red"))
    "\u009b31m red"
    """
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return STEERING.sub(lambda found: _number(found[0], "\\u{:04x}"), text)


def _number(character: str, short: str) -> str:
    code = ord(character)
    return short.format(code) if code < 256 else f"\\u{code:04x}"
