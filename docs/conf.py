"""Configuration of the documentation: `make docs`."""

from importlib.metadata import version as version_of
from xml.etree import ElementTree

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers
from sphinx.util.logging import getLogger

project = "bayes_feasible"
author = "the bayes_feasible developers"
release = version = version_of("bayes_feasible")

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "none"  # numpydoc shows the types in the sections of each docstring
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
exclude_patterns = ["_build", "jupyter_execute"]

# The gallery runs at each build; notebooks are stored with their output, and tests run them.
nb_execution_mode = "auto"
nb_execution_raise_on_error = True
nb_execution_timeout = 600

html_theme = "sphinx_book_theme"
html_title = "bayes_feasible"
html_theme_options = {"show_navbar_depth": 2, "home_page_in_toc": True}
html_math_renderer = "mathml"

MATHML = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", MATHML)
lexers["csv"] = TextLexer()


def setup(app):
    """Formulas are MathML, which browsers show by themselves: MathJax would need the network."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))


def _inline(translator, node):
    _write(translator, node, "{}")


def _block(translator, node):
    _write(translator, node, '<p style="overflow: auto hidden">{}</p>')


def _write(translator, node, frame):
    try:
        formula = _subscripted(tex2mathml(node.astext(), as_block=frame != "{}"))
        translator.body.append(frame.format(formula))
    except MathError as error:
        getLogger(__name__).warning("%s", error, location=node)
    raise SkipNode


def _subscripted(mathml):
    """Put the subscript of an accented letter beside it; docutils puts it below."""
    root = ElementTree.fromstring(mathml.replace("&ApplyFunction;", "\u2061"))
    for element in root.iter(f"{{{MATHML}}}mo"):
        if element.text == "\u2061":  # between a function and what it is of: log p, not logp
            element.set("rspace", "0.17em")
    for element in root.iter(f"{{{MATHML}}}munderover"):
        letter, subscript, accent = element
        if letter.tag == f"{{{MATHML}}}mi":
            accented = ElementTree.Element(f"{{{MATHML}}}mover")
            accented.extend([letter, accent])
            element.tag, element[:] = f"{{{MATHML}}}msub", [accented, subscript]
    return ElementTree.tostring(root, encoding="unicode")
