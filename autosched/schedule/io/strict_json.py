"""Strict reading of untrusted JSON: every value is checked, every error names file and path."""

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
    """A JSON value with its path.

    Attributes:
        value: The value from the JSON parser.
        path: Path from the top, as in ``kernels[2].members[0].at.depth``; empty at the top.
        source: Name of the file for messages.
        failure: Class of the errors; the methods below name its default.
        remedy: The way out, which ends every message, or empty.
    """

    value: object
    path: str
    source: str
    failure: type[AutoschedError] = ScheduleError
    remedy: str = ""

    def error(self, problem: str) -> AutoschedError:
        """Return the error for a problem of this value; ``problem`` continues a sentence that starts with the path."""
        end = f"; {self.remedy}" if self.remedy else ""
        return self.failure(f"{self.source}: {self.path or 'the file'} {problem}{end}")

    def part(self, value: object, step: str) -> Node:
        """Return a value inside this one; ``step`` is its key, or its index in brackets."""
        path = f"{self.path}.{step}" if self.path and not step.startswith("[") else f"{self.path}{step}"
        return Node(value, path, self.source, self.failure, self.remedy)

    def mapping(self) -> dict[str, Node]:
        """Return the entries of an object by key.

        Raises:
            ScheduleError: If this is no object or gives a key twice.
        """
        if not isinstance(self.value, dict):
            raise self._expected("an object {...}")
        return {k: self.part(v, k) for k, v in self.value.items()}

    def without(self, *names: str) -> Node:
        """Return this object without the given keys.

        Raises:
            ScheduleError: If this is no object or gives a key twice.
        """
        values = {k: v.value for k, v in self.mapping().items() if k not in names}
        return replace(self, value=values)

    def fields(self, *names: str) -> tuple[Node, ...]:
        """Return the values of these keys, in this order; other keys are errors.

        Raises:
            ScheduleError: If this is no object, a key is missing, or there is another key.
        """
        for key in self.mapping():
            if key not in names:
                raise self.error(f"has an unknown key {key!r}: {_nearest(key, names)}")
        return self.fields_of(*names)

    def fields_of(self, *names: str) -> tuple[Node, ...]:
        """Return the values of these keys, in this order; other keys are allowed.

        Raises:
            ScheduleError: If this is no object, or a key is missing.
        """
        entries = self.mapping()
        for name in names:
            if name not in entries:
                raise self.error(f"lacks the key {name!r}: it needs {', '.join(names)}")
        return tuple(entries[name] for name in names)

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
            ScheduleError: If this is no string.
        """
        if not isinstance(self.value, str):
            raise self._expected("a text")
        return self.value

    def integer(self, low: int, high: int) -> int:
        """Return a whole number in ``[low, high]``.

        Raises:
            ScheduleError: If the value is no integer (32.0 and true are not), or out of range.
        """
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
            raise self._expected(f"a whole number from {low} to {high}")
        return self.value

    def number(self, low: float = -math.inf, high: float = math.inf) -> float:
        """Return a finite number in ``[low, high]``.

        Raises:
            ScheduleError: If the value is no number (true is not), or out of range.
        """
        value = self.value
        if isinstance(value, int | float) and not isinstance(value, bool):
            with contextlib.suppress(OverflowError):  # an integer beyond all floats
                if math.isfinite(value) and low <= value <= high:
                    return float(value)
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
        """Return the option with this name.

        Args:
            options: Options by name.
            what: The kind of option, for the message.

        Raises:
            ScheduleError: If this is no string or names no option.
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
        text: The text; UTF-8 if it is bytes.
        source: Name of the file for messages.
        failure: Class of all errors; by default InputError for text that is no JSON, ScheduleError for values.
        remedy: The way out, for messages.

    Raises:
        InputError: If it is no JSON, with line and column.
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
    except ValueError:  # Python rejects integers of thousands of digits
        problem = "a number is too long"
    raise (failure or InputError)(f"{source} is no JSON: {problem}; the file may be truncated or damaged: {remedy}")


@dataclass(frozen=True, slots=True)
class _RepeatedKey:
    key: str


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object] | _RepeatedKey:
    """Return an object, or its repeated key, which becomes an error with a path; `json` would take the last value."""
    entries: dict[str, object] = {}
    for key, value in pairs:
        if key in entries:
            return _RepeatedKey(key)
        entries[key] = value
    return entries


def _nearest(name: str, options: Iterable[str]) -> str:
    names = list(options)
    close = difflib.get_close_matches(name, names, n=1)
    question = f"did you mean {close[0]!r}? " if close else ""
    return f"{question}There is {', '.join(names)}" if names else "there are none"


def indented(value: object, width: int = 110) -> str:
    """Return JSON for editing: values that fit into a line on one line, others with one element per line."""
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
