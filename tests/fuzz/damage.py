"""Damages files as disks, editors and other programs do."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**70, 10**400, 0.5, -0.5, 1e308, float("nan"), float("inf"), "", "x", "\0",
    "\ud800", "9" * 5000, [], {}, [[]], [None], {"x": 1}, [1, 2, 3],
)  # fmt: skip
"""Values of every kind, of which each field takes one or two at most."""


def damaged_bytes(rng: random.Random, content: bytes) -> bytes:
    """Return a content with a few bits turned over, cut off, or with a part that was never written."""
    found = bytearray(content)
    match rng.randrange(4):
        case 0:
            for _ in range(rng.choice((1, 1, 3, 20))):
                found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
        case 1:
            del found[rng.randrange(len(found)) :]
        case 2:
            start = rng.randrange(len(found))
            found[start : start + rng.choice((1, 16, 512))] = b"\0" * min(512, len(found) - start)
        case _:
            start = rng.randrange(len(found))
            found[start:start] = found[start // 2 : start // 2 + rng.choice((1, 64))]
    return bytes(found)


def damaged_json(rng: random.Random, text: str) -> str:
    """Return a document with one value of another kind, missing, or in another's place."""
    document = json.loads(text)
    places = list(_places(document))
    holder, key = rng.choice(places)
    match rng.randrange(8):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
        case 2:
            other, name = rng.choice(places)
            holder[key] = copy.deepcopy(other[name])
        case 3 if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        case _:
            holder[key] = rng.choice(WRONG)
    return _written(document)


def each_value(text: str, wrong: tuple[Any, ...] = WRONG) -> Iterator[tuple[str, str]]:
    """Yield (name of the damage, document) for each key at the top with each wrong value, and without the key."""
    good = json.loads(text)
    for key in good:
        yield f"no {key}", _written({k: v for k, v in good.items() if k != key})
        for value in wrong:
            yield (
                f"{key}={value!r:.20}" if not isinstance(value, int) else f"{key} a number",
                _written({**good, key: value}),
            )


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _written(document: Any) -> str:
    return json.dumps(document)
