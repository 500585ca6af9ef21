"""Parsed reports, for tests."""

from __future__ import annotations

from functools import cached_property
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """A parsed page.

    Attributes:
        tags: Every start tag with its attributes, in order.
        text: All text outside scripts and styles.
        ids: Values of ``id``.
        pre: Text of each ``pre``.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.ids: list[str] = []
        self.pre: list[str] = []
        self._open: list[str] = []
        self._texts: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], "elements that are not closed"

    @cached_property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())

    def attributes(self, tag: str, name: str) -> list[str]:
        """Return the values of an attribute in the elements of one tag that have it."""
        return [found[name] for t, found in self.tags if t == tag and name in found]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "pre":
            self.pre.append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if "pre" in self._open:
            self.pre[-1] += data
        if not {"script", "style"} & set(self._open):
            self._texts.append(data)
