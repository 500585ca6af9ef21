"""Text templates of exports with placeholders ``@name@``."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_PLACE = re.compile(r"@(\w+)@")


@cache
def template(name: str) -> str:
    """Return an unfilled template."""
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def fill(name: str, /, **values: str) -> str:
    """Return a template with its placeholders replaced; values are not expanded again.

    Raises:
        KeyError: If a placeholder has no value.
    """
    return _PLACE.sub(lambda place: values[place[1]], template(name))
