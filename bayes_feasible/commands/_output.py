"""What commands print for programs to read."""

import math
from typing import Any


def plain(value: Any) -> Any:
    """Numbers that JSON knows; infinities become the text "inf", as in instance files."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
