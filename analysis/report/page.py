"""What all pages share: they stand alone, and whatever names hold is shown and never run."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

TEMPLATES = Path(__file__).with_name("templates")


class Table(NamedTuple):
    """Cells for reading: numbers to the right, `words` to the left, `prose` in lines."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = (0,)
    prose: Sequence[int] = ()


def fill(template: str, **values: Any) -> str:
    """Fill a template; every value is escaped but those that the template calls safe."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(style=style, **values)


def data_uri(content: bytes, kind: str) -> str:
    """Put a file into the address of a link or a picture."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def picture(svg: bytes, alternative: str, caption: str) -> dict[str, str]:
    """Make what the templates show of a figure. A picture in an address runs no script."""
    return {"alt": alternative, "caption": caption, "source": data_uri(svg, "image/svg+xml")}
