"""Terms of symbolic indices: loop variables, non-affine atoms and affine sums of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

Interval = tuple[int, int]
Number = Any  # int, Affine or NumPy integer array
UNBOUNDED = 1 << 62
_LONGEST_KEY = 500
"""Length beyond which a hash replaces canonical text; the text of nested atoms repeats that of inner ones."""


@dataclass(frozen=True, slots=True)
class LoopVar:
    """A loop variable with its inclusive range."""

    name: str
    lo: int
    hi: int

    @property
    def key(self) -> str:
        """Canonical text."""
        return self.name

    @property
    def interval(self) -> Interval:
        """Inclusive range."""
        return self.lo, self.hi


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """A non-affine integer: ``kind`` in div, mod, min, max, prod, select, data.

    ``args`` are index expressions; ``payload`` is the divisor (div, mod), the condition (select) or the value
    expression (data).
    """

    kind: str
    args: tuple[Index, ...]
    payload: Any
    key: str
    interval: Interval

    def __eq__(self, o: object) -> bool:
        return isinstance(o, Atom) and self.key == o.key

    def __hash__(self) -> int:
        return hash(self.key)


Term = LoopVar | Atom


@dataclass(slots=True, eq=False)  # not frozen: construction is three times as fast
class Affine:
    """``const + sum(coefficient * term)``; terms sorted by their text, coefficients not zero, at least one term.

    Immutable by convention. Text and interval are computed on first use: most indices are intermediate results.
    """

    terms: tuple[tuple[Term, int], ...]
    const: int
    _key: str = field(init=False, default="")
    _interval: Interval | None = field(init=False, default=None)

    @property
    def key(self) -> str:
        """Canonical text."""
        if not self._key:
            text = "+".join([f"{c}*{t.key}" if c != 1 else t.key for t, c in self.terms])
            self._key = shortened(f"({text}+{self.const})" if self.const else f"({text})")
        return self._key

    @property
    def interval(self) -> Interval:
        """Inclusive range."""
        if self._interval is None:
            lo = hi = self.const
            for t, c in self.terms:
                a, b = t.interval
                lo, hi = (lo + c * a, hi + c * b) if c > 0 else (lo + c * b, hi + c * a)
            self._interval = lo, hi
        return self._interval

    def __eq__(self, o: object) -> bool:
        return isinstance(o, Affine) and self.key == o.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key


Index = int | Affine


def interval(e: Index) -> Interval:
    """Return the inclusive interval of an index."""
    return e.interval if isinstance(e, Affine) else (e, e)


def key(e: Index) -> str:
    """Return canonical text: equal texts imply equal values."""
    return e.key if isinstance(e, Affine) else str(e)


def shortened(text: str) -> str:
    """Return canonical text of limited length."""
    return text if len(text) <= _LONGEST_KEY else f"#{blake2b(text.encode(), digest_size=16).hexdigest()}"
