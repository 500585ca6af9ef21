"""Texts that exports are made from, with ``@name@`` where something is put in."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_PLACE = re.compile(r"@(\w+)@")


@cache
def template(name: str) -> str:
    """Return a template as it is."""
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def fill(name: str, /, **values: str) -> str:
    """Return a template with its places filled; what is put in is not looked at again.

    Raises:
        KeyError: If a place has no value.
    """
    return _PLACE.sub(lambda place: values[place[1]], template(name))
