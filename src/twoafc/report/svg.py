"""Figures as SVG inside a page: ids of their own, words for those who do not see them, nothing from elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from markupsafe import Markup

from twoafc import plots
from twoafc.files import BREAKS, legible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONTS = re.compile(r"font(-family)?:([^;]*?)'DejaVu Sans'[^;]*")
REFERENCE = re.compile(r"url\(#([^)]*)\)")
DROPPED = ("metadata", "style")


def inline(figure: Figure, *, name: str, title: str, description: str = "") -> Markup:
    """Write a figure as an SVG element of a page.

    Parameters
    ----------
    name : str
        What its ids begin with; figures of one page must have different names.
    title, description : str
        What the figure is, and what is seen on it, in words.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> element = inline(Figure(figsize=(1, 1)), name="empty", title="Nothing, as <text>")
    >>> element.startswith('<svg class="figure" role="img" aria-labelledby="empty-title"')
    True
    >>> "Nothing, as &lt;text&gt;" in element
    True
    """
    root = ElementTree.fromstring(plots.svg(figure))
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in DROPPED:
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        kept = {_local(key): _renamed(_local(key), value, name) for key, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update(kept)
    shape = {key: root.attrib[key] for key in ("width", "height", "viewBox")}
    root.attrib.clear()
    labels = f"{name}-title {name}-description" if description else f"{name}-title"
    root.attrib.update({"class": "figure", "role": "img", "aria-labelledby": labels, **shape})
    if description:
        root.insert(0, _worded("desc", f"{name}-description", description))
    root.insert(0, _worded("title", f"{name}-title", title))
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _local(name: str) -> str:
    """A name without its namespace, which HTML knows by the element svg itself."""
    return name.rpartition("}")[2] if isinstance(name, str) else name


def _renamed(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return FONTS.sub(_family, REFERENCE.sub(rf"url(#{name}-\1)", value)) if "#" in value or "font" in value else value


def _family(found: re.Match[str]) -> str:
    """The fonts of the page in place of a long list that no reader may have."""
    return f"font{found[1] or ''}:{found[2]}sans-serif"


def _worded(tag: str, identity: str, text: str) -> ElementTree.Element:
    element = ElementTree.Element(tag, {"id": identity})
    element.text = legible(text, keep=BREAKS)
    return element
