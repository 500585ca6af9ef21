"""JSON from a file somebody else may have written: every value is checked, every complaint names file and place."""

from __future__ import annotations

import contextlib
import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from autosched.errors import AutoschedError, InputError, ScheduleError, shortened

T = TypeVar("T")

REWRITE = "write it again"


@dataclass(frozen=True, slots=True)
class Node:
    """A value with the place it stands at.

    Attributes:
        value: What the JSON parser returned.
        path: The way from the top, as in ``kernels[2].members[0].at.depth``; empty at the top.
        source: Name of the file for messages.
        failure: Class of the errors; those named below are the usual one.
        remedy: What to do about a file that somebody else wrote, or empty; ends every message.
    """

    value: object
    path: str
    source: str
    failure: type[AutoschedError] = ScheduleError
    remedy: str = ""

    def error(self, problem: str) -> AutoschedError:
        """Return the error for a problem here; ``problem`` continues the sentence that starts with the path."""
        end = f"; {self.remedy}" if self.remedy else ""
        return self.failure(f"{self.source}: {self.path or 'the file'} {problem}{end}")

    def part(self, value: object, step: str) -> Node:
        """Return a value inside this one; ``step`` is its key, or its index in brackets."""
        way = f"{self.path}.{step}" if self.path and not step.startswith("[") else f"{self.path}{step}"
        return Node(value, way, self.source, self.failure, self.remedy)

    def mapping(self) -> dict[str, Node]:
        """Return the entries of an object by key.

        Raises:
            ScheduleError: If this is no object or gives a key twice.
        """
        if not isinstance(self.value, dict):
            raise self._expected("an object {...}")
        return {k: self.part(v, k) for k, v in self.value.items()}

    def without(self, *names: str) -> Node:
        """Return this object without some keys.

        Raises:
            ScheduleError: If this is no object or gives a key twice.
        """
        values = {k: v.value for k, v in self.mapping().items() if k not in names}
        return replace(self, value=values)

    def fields(self, *names: str) -> tuple[Node, ...]:
        """Return the values of exactly these keys, in this order.

        Raises:
            ScheduleError: If this is no object, a key is missing, or there are others.
        """
        for key in self.mapping():
            if key not in names:
                raise self.error(f"has an unknown key {key!r}: {_nearest(key, names)}")
        return self.fields_of(*names)

    def fields_of(self, *names: str) -> tuple[Node, ...]:
        """Return the values of these keys, in this order; there may be others.

        Raises:
            ScheduleError: If this is no object, or a key is missing.
        """
        found = self.mapping()
        for name in names:
            if name not in found:
                raise self.error(f"lacks the key {name!r}: it needs {', '.join(names)}")
        return tuple(found[name] for name in names)

    def items(self) -> list[Node]:
        """Return the elements of a list.

        Raises:
            ScheduleError: If this is no list.
        """
        if not isinstance(self.value, list):
            raise self._expected("a list [...]")
        return [self.part(v, f"[{k}]") for k, v in enumerate(self.value)]

    def text(self) -> str:
        """Return a string.

        Raises:
            ScheduleError: If this is none.
        """
        if not isinstance(self.value, str):
            raise self._expected("a text")
        return self.value

    def integer(self, low: int, high: int) -> int:
        """Return a whole number in ``[low, high]``.

        Raises:
            ScheduleError: If this is none (32.0 and true are none) or lies outside.
        """
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
            raise self._expected(f"a whole number from {low} to {high}")
        return self.value

    def number(self, low: float = -math.inf, high: float = math.inf) -> float:
        """Return a finite number in ``[low, high]``.

        Raises:
            ScheduleError: If this is none (true is none) or lies outside.
        """
        given = self.value
        if isinstance(given, int | float) and not isinstance(given, bool):
            with contextlib.suppress(OverflowError):  # a whole number beyond all of them
                if math.isfinite(given) and low <= given <= high:
                    return float(given)
        limits = "" if low == -math.inf and high == math.inf else f" from {low:g} to {high:g}"
        raise self._expected(f"a finite number{limits}")

    def boolean(self) -> bool:
        """Return a truth value.

        Raises:
            ScheduleError: If this is neither true nor false.
        """
        if not isinstance(self.value, bool):
            raise self._expected("true or false")
        return self.value

    def choice(self, options: Mapping[str, T], what: str) -> T:
        """Return what a name stands for.

        Args:
            options: Meaning of each known name.
            what: What is named, for the message.

        Raises:
            ScheduleError: If this is no string or no known name.
        """
        name = self.text()
        if name not in options:
            raise self.error(f"is {shortened(name)}, which is no {what}: {_nearest(name, options)}")
        return options[name]

    def _expected(self, what: str) -> AutoschedError:
        if isinstance(self.value, _RepeatedKey):
            return self.error(f"gives {self.value.key!r} twice: keep one of them")
        shown = "true" if self.value is True else "false" if self.value is False else shortened(self.value)
        return self.error(f"is {'null' if self.value is None else shown}: give {what}")


def parse(text: str | bytes, source: str, failure: type[AutoschedError] | None = None, remedy: str = REWRITE) -> Node:
    """Return the top of a JSON text.

    Args:
        text: The text, as bytes of UTF-8 where a file was read.
        source: Name of the file for messages.
        failure: Class of all errors; when left out, InputError for text that is no JSON, ScheduleError for values.
        remedy: What to do about the file.

    Raises:
        InputError: If it is no JSON, naming line and column.
    """
    try:
        content = text if isinstance(text, str) else text.decode()
        value = json.loads(content, object_pairs_hook=_object)
        return Node(value, "", source) if failure is None else Node(value, "", source, failure, remedy)
    except UnicodeDecodeError as e:
        problem = f"byte {e.start}: {e.reason}"
    except json.JSONDecodeError as e:
        problem = f"line {e.lineno} column {e.colno}: {e.msg}"
    except RecursionError:
        problem = "nested too deeply"
    except ValueError:  # Python refuses integers of thousands of digits
        problem = "a number is too long"
    raise (failure or InputError)(f"{source} is no JSON: {problem}; the file may be truncated or damaged: {remedy}")


@dataclass(frozen=True, slots=True)
class _RepeatedKey:
    key: str


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object] | _RepeatedKey:
    """Keep a repeated key for the reader to complain about, who knows the place; plain JSON takes the last."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            return _RepeatedKey(key)
        found[key] = value
    return found


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    question = f"did you mean {close[0]!r}? " if close else ""
    return f"{question}There is {', '.join(names)}" if names else "there are none"


def indented(value: object, width: int = 110) -> str:
    """Return JSON that people can edit: what fits into a line stands on one, the rest one element a line."""
    return _indented(value, 0, width) + "\n"


def _indented(value: object, used: int, width: int, lead: str = "") -> str:
    flat = json.dumps(value)
    if not isinstance(value, dict | list) or not value or len(lead) + used + len(flat) <= width:
        return flat
    inner = lead + "  "
    if isinstance(value, dict):
        heads = [f"{json.dumps(k)}: " for k in value]
        values = list(value.values())
    else:
        heads, values = [""] * len(value), value
    rows = [f"{inner}{h}{_indented(v, len(h) + 1, width, inner)}" for h, v in zip(heads, values, strict=True)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(rows) + f"\n{lead}{closing}"
