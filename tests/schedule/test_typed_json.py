"""Annotated types as schemas of JSON: values that fit are read, others are errors with their path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import pytest

from autosched.errors import DatabaseError, InputError
from autosched.schedule.io.strict_json import Node, parse
from autosched.schedule.io.typed_json import read_as


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    low: int
    high: float = 2.0

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InputError("low is above high")


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner
    many: tuple[Inner, ...]
    pair: tuple[int, str]
    table: Mapping[str, float]
    perhaps: float | None
    kind: Literal["a", "b"]
    colour: Colour
    mixed: bool | int | float | tuple[float, ...]
    anything: Any = None


GOOD: dict[str, Any] = {
    "name": "n",
    "inner": {"low": 1},
    "many": [{"low": 0, "high": 0.5}],
    "pair": [3, "x"],
    "table": {"t": 1},
    "perhaps": None,
    "kind": "a",
    "colour": "red",
    "mixed": [1, 2.5],
}
WRONG = ("x", "", -1, 2**70, 1.5, True, None, [], {}, [[]], [None], {"low": "x"}, float("nan"), float("inf"), 10**400)


def read(document: object) -> Outer:
    return read_as(parse(json.dumps(document), "file", DatabaseError, "mend it"), Outer)


def test_values_that_fit_are_read() -> None:
    found = read({**GOOD, "anything": {"a": [1]}})
    assert found == Outer(
        "n", Inner(1), (Inner(0, 0.5),), (3, "x"), {"t": 1.0}, None, "a", Colour.RED, (1.0, 2.5), {"a": [1]}
    )
    assert isinstance(found.table["t"], float)
    assert [read({**GOOD, "mixed": v}).mixed for v in (True, 3, 0.5)] == [True, 3, 0.5]


FITS = {
    ("name", "x"), ("name", ""), ("perhaps", -1), ("perhaps", 1.5), ("perhaps", None), ("mixed", -1), ("mixed", 1.5),
    ("mixed", True), ("perhaps", 2**70), ("mixed", 2**70),
}  # fmt: skip


@pytest.mark.parametrize("key", GOOD)
@pytest.mark.parametrize("value", WRONG, ids=lambda v: repr(v)[:20])
def test_each_field_with_each_kind_of_value(key: str, value: object) -> None:
    if isinstance(value, list | dict):
        fits = (key in ("many", "mixed") and value == []) or (key == "table" and value == {})
    else:
        fits = (key, value) in FITS and not (isinstance(value, bool) and key == "perhaps")
    if fits:
        read({**GOOD, key: value})
        return
    with pytest.raises(DatabaseError, match=rf"^file: {key}.*; mend it$|^file: {key}.*(mend it)") as caught:
        read({**GOOD, key: value})
    assert len(str(caught.value)) < 300


def test_keys() -> None:
    with pytest.raises(DatabaseError, match="lacks the key 'kind'"):
        read({k: v for k, v in GOOD.items() if k != "kind"})
    with pytest.raises(DatabaseError, match="colours is not known: there is name, inner"):
        read({**GOOD, "colours": 1})
    node = parse(json.dumps({**GOOD, "colours": 1}), "file")
    assert read_as(node, Outer, newer=True).name == "n"


def test_errors_of_the_dataclass_have_a_path() -> None:
    with pytest.raises(DatabaseError, match=r"file: many\[1\] cannot be used: low is above high; mend it"):
        read({**GOOD, "many": [{"low": 0}, {"low": 5}]})


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"[" * 100_000, b"9" * 5000, b"{", b'{"a": nul', "null"])
def test_texts_that_are_no_objects(text: bytes | str) -> None:
    with pytest.raises(DatabaseError, match="mend it"):
        read_as(parse(text, "file", DatabaseError, "mend it"), Outer)


def test_a_number_has_limits() -> None:
    node = Node(3, "x", "file", InputError)
    assert node.number(0, 3) == 3.0
    with pytest.raises(InputError, match="file: x is 3: give a finite number from 4 to 5"):
        node.number(4, 5)
