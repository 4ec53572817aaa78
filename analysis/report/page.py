"""Pieces of a web page that stands alone: no scripts, no other files, no network."""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

# Narrow first: one column and tables that scroll by themselves beside their first column, with a
# shadow on the right as long as there is more (the first background moves along and covers it at
# the end); figures side by side where there is room. On paper nothing scrolls and no figure is
# torn apart.
CSS = """
:root { color-scheme: light; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --wash: #f6f8fa; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; color: var(--ink); background: #fff;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 1.55rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-bottom: .25rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
p, ul, dl { max-width: 46rem; }
.lead { font-size: 1.08rem; }
.soft { color: var(--soft); }
.verdicts { list-style: none; padding: 0; max-width: none; display: grid; gap: .6rem; }
.verdicts li { border: 1px solid var(--line); border-left: .4rem solid var(--tone);
  border-radius: .4rem; padding: .6rem .8rem; break-inside: avoid; }
.verdicts b { margin-right: .5rem; overflow-wrap: anywhere; }
.verdicts p { margin: .3rem 0 0; max-width: none; }
.badge { display: inline-block; padding: .05rem .55rem; border-radius: 1rem; color: #fff;
  background: var(--tone); font-size: .85rem; font-weight: 600; white-space: nowrap; }
.good { --tone: #00704f; } .bad { --tone: #a33b00; } .open { --tone: #555f6b; }
.fault { --tone: #b00020; }
.warning { border: 1px solid #d4a72c; border-left: .4rem solid #9a6700; background: #fff8c5;
  border-radius: .4rem; padding: .3rem .9rem; margin: 1rem 0; break-inside: avoid; }
.figures { display: grid; gap: 1.2rem; }
figure { margin: 0; border: 1px solid var(--line); border-radius: .4rem; padding: .7rem;
  break-inside: avoid; min-width: 0; }
figure img { display: block; width: 100%; height: auto; max-width: 42rem; margin: 0 auto; }
figcaption { font-size: .92rem; margin-top: .5rem; }
.scroll { overflow-x: auto; margin: .6rem 0; background:
  linear-gradient(to left, #fff 50%, #fff0) right / 3rem 100% no-repeat local,
  linear-gradient(to left, #0005, #0000) right / .9rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
caption span { position: sticky; left: 0; display: inline-block; max-width: calc(100vw - 2rem); }
th, td { padding: .3rem .45rem; border-bottom: 1px solid var(--line); text-align: right;
  vertical-align: top; }
th { background: var(--wash); font-weight: 600; }
td { white-space: nowrap; }
th.word, td.word { text-align: left; }
td.prose, th.prose { text-align: left; white-space: normal; min-width: 18rem;
  overflow-wrap: anywhere; }
tbody th { background: #fff; }
thead th:first-child, tbody th { position: sticky; left: 0; }
dt { font-weight: 600; margin-top: .6rem; } dd { margin: 0 0 0 1rem; }
pre { background: var(--wash); border: 1px solid var(--line); border-radius: .4rem;
  padding: .7rem; overflow-x: auto; font-size: .85rem; line-height: 1.4; }
@media (min-width: 60rem) {
  tbody th { white-space: nowrap; }
  body { padding: 1.5rem 2rem; }
  .figures { grid-template-columns: 1fr 1fr; }
  .verdicts { grid-template-columns: 1fr 1fr; }
}
@media print {
  @page { margin: 16mm; }
  body { font-size: 10pt; max-width: none; padding: 0; }
  .figures, .verdicts { display: block; }
  figure, .verdicts li { margin-bottom: 5mm; }
  figure img { max-width: 10.4cm; }
  h2, h3, dt { break-after: avoid; }
  tr { break-inside: avoid; }
  .scroll { overflow: visible; break-inside: avoid; background: none; }
  table { font-size: 7.5pt; } th, td { padding: .15rem .3rem; }
  thead th:first-child, tbody th { position: static; }
  tbody th, td, td.prose { white-space: normal; min-width: 0; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
}
"""


def page(title: str, body: Iterable[str]) -> str:
    """A whole document."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="generator" content="bayes_feasible">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def section(title: str, *parts: str, name: str = "") -> str:
    """A heading and what belongs to it; nothing where there is nothing."""
    content = "\n".join(part for part in parts if part)
    if not content:
        return ""
    identity = f' id="{escape(name)}"' if name else ""
    return f"<section{identity}>\n<h2>{escape(title)}</h2>\n{content}\n</section>"


def paragraph(text: str, kind: str = "") -> str:
    """Plain text as a paragraph."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{escape(text)}</p>"


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str,
    *,
    words: Iterable[int] = (0,),
    prose: Iterable[int] = (),
) -> str:
    """A table that scrolls by itself where it is too wide.

    Numbers stand to the right, columns of `words` to the left, and `prose` is broken into lines.
    """
    kinds = dict.fromkeys(words, ' class="word"') | dict.fromkeys(prose, ' class="prose"')

    def cell(tag: str, text: str, column: int, extra: str = "") -> str:
        return f"<{tag}{kinds.get(column, '')}{extra}>{escape(text)}</{tag}>"

    head = "".join(cell("th", text, i, ' scope="col"') for i, text in enumerate(header))
    body = "\n".join(
        "<tr>"
        + cell("th", row[0], 0, ' scope="row"')
        + "".join(cell("td", text, i) for i, text in enumerate(row[1:], start=1))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption><span>{escape(caption)}</span></caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def definitions(terms: Iterable[tuple[str, str]]) -> str:
    """Terms and what they mean."""
    inner = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>\n" for term, text in terms)
    return f"<dl>\n{inner}</dl>"


def listing(items: Iterable[str]) -> str:
    """Plain texts as a list."""
    return "<ul>\n" + "".join(f"<li>{escape(item)}</li>\n" for item in items) + "</ul>"


def figure(path: Path, alt: str, caption: str) -> str:
    """A picture inside the page, with a text for who cannot see it."""
    kind = {".svg": "image/svg+xml", ".png": "image/png"}[path.suffix]
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return (
        f'<figure><img alt="{escape(alt)}" src="data:{kind};base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )
