"""Read a page as a browser would, strictly: every element closed, every reference kept."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser

_NUMBER = re.compile(r"^Table S?\d+\. ")
VOID = {"meta", "br", "hr", "img", "link", "input"}


@dataclass
class Element:
    """An element with its attributes, its children and the text between them."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @cached_property
    def within(self) -> list[Element]:
        """All elements below this one, in the order of the page; a page does not change."""
        found, waiting = [], [self]
        while waiting:
            found.append(waiting.pop())
            inner = (child for child in found[-1].children if isinstance(child, Element))
            waiting += reversed([*inner])
        return found[1:]

    def all(self, *tags: str) -> list[Element]:
        return [element for element in self.within if element.tag in tags or not tags]

    @property
    def text(self) -> str:
        parts = (child if isinstance(child, str) else child.text for child in self.children)
        return " ".join("".join(parts).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"<{tag}> has an attribute twice"
        if tag == "td":
            self.end_cell()
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def end_cell(self) -> None:
        """End a cell whose end tag is left out, as HTML allows."""
        if self.open[-1].tag == "td":
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr":
            self.end_cell()
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read_page(text: str) -> Element:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root], f"<{reader.open[-1].tag}> is never closed"
    (page,) = reader.root.all("html")
    return page


def section(page: Element, name: str) -> Element:
    (found,) = (part for part in page.all("section") if part.attributes["id"] == name)
    return found


def read_caption(table: Element) -> str:
    """Return the caption of a table without its number."""
    return _NUMBER.sub("", table.all("caption")[0].text)


def read_table(part: Element, caption: str) -> list[dict[str, str]]:
    """Return the body and foot rows of the table whose caption, without number, starts so."""
    wanted = _NUMBER.sub("", caption)
    (table,) = (
        table
        for table in part.all("table")
        if read_caption(table).startswith(wanted) and table.attributes.get("class") != "excerpt"
    )
    headings = [cell.text for cell in table.all("thead")[0].all("th")]
    rows = [
        [cell.text for cell in row.all("th", "td")]
        for body in table.all("tbody", "tfoot")
        for row in body.all("tr")
    ]
    assert all(len(row) == len(headings) for row in rows)
    return [dict(zip(headings, row, strict=True)) for row in rows]


def number(text: str) -> float:
    """Read a number as the page writes it; a duration in seconds."""
    value, _, unit = text.replace(",", "").replace("%", " ").strip().partition(" ")
    return float(value) * {"ms": 1e-3, "min": 60, "h": 3600, "d": 86_400}.get(unit, 1)
