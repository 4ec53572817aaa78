"""How functions are compiled."""

from typing import Any

# Sums may be re-ordered, which lets the compiler use vector registers; nothing else is relaxed.
FAST = {"reassoc", "contract", "nsz"}
# How functions are compiled. A door is called from Python. What only compiled code calls is inner:
# a door would take as long to compile as the rest. A borrower makes no array and keeps none, so
# nobody need count references to them, which would take longer than the work on small ones. What
# takes a generator from Python must count, or the generator would live for ever.
DOOR: dict[str, Any] = {"cache": True, "error_model": "numpy"}
INNER: dict[str, Any] = {**DOOR, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
BORROWER: dict[str, Any] = {**INNER, "_nrt": False}
BORROWING_DOOR: dict[str, Any] = {**DOOR, "_nrt": False}
