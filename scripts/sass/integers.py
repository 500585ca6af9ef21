"""Semantics of the integer instructions of sm_80 and sm_90, vectorised over lanes.

Registers have 32 bits, represented as int64 arrays in [0, 2^32). Unsupported instructions (floating point, pairs of
half words, votes) compute data, on which addresses and branches rarely depend; their results are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sass.instructions import Instruction

Words = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Sources:
    """Source operands of an instruction.

    Attributes:
        words: Register-sized operands in order, before signs are applied.
        high: High word of each operand, for 64-bit operations.
        negated: Whether each operand is negated.
        inverted: Whether each operand is complemented.
        flags: Predicates in order.
    """

    words: Sequence[Words]
    high: Sequence[Words]
    negated: Sequence[bool]
    inverted: Sequence[bool]
    flags: Sequence[Flags]

    def word(self, k: int) -> Words:
        """Return operand ``k`` with its sign applied."""
        return self.raw(k) & MASK

    def raw(self, k: int) -> Words:
        """Return operand ``k`` such that sums carry as in the hardware: -x is ~x + 1, which for 0 is 2^32."""
        w = self.words[k]
        if self.negated[k]:
            return (w ^ MASK) + 1
        return w ^ MASK if self.inverted[k] else w

    def carry(self) -> Words:
        """Return the sum of the incoming carries."""
        total = np.zeros_like(self.words[0])
        for f in self.flags:
            total = total + f
        return total


@dataclass(frozen=True, slots=True)
class Results:
    """Results of an instruction: consecutive registers from the destination, and predicates."""

    words: Sequence[Words] = ()
    flags: Sequence[Flags] = ()


Meaning = Callable[[Instruction, Sources], Results | None]


def signed(w: Words) -> Words:
    """Return words as signed numbers."""
    return np.where(w >= 1 << 31, w - (1 << 32), w)


def _pair(high: Words, low: Words) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)


def _add(i: Instruction, s: Sources) -> Results:
    total = s.raw(0) + s.raw(1) + (s.raw(2) if len(s.words) > 2 else 0)
    total = total + (s.carry() if i.has("X") else 0)
    return Results((total & MASK,), (total > MASK, total > 2 * MASK + 1))


def _multiply_add(i: Instruction, s: Sources) -> Results | None:
    unsigned = i.has("U32")
    a, b = (s.word(0), s.word(1)) if unsigned else (signed(s.word(0)), signed(s.word(1)))
    if i.has("WIDE") or i.has("HI"):
        product = (a.astype(np.uint64) if unsigned else a.view(np.uint64)) * (
            b.astype(np.uint64) if unsigned else b.view(np.uint64)
        )
        addend = _pair(s.high[2], s.words[2])
        if s.negated[2]:
            addend = ~addend + np.uint64(1)
        total = product + addend
        low, high = (total & np.uint64(MASK)).astype(np.int64), (total >> np.uint64(32)).astype(np.int64)
        return Results((high,) if i.has("HI") else (low, high), (total < product,))
    product = (s.word(0).astype(np.uint64) * s.word(1).astype(np.uint64) & np.uint64(MASK)).astype(np.int64)
    total = product + s.raw(2) + (s.carry() if i.has("X") else 0)
    return Results((total & MASK,), (total > MASK,))


def _scaled_add(i: Instruction, s: Sources) -> Results:
    """LEA: ``(a << shift) + b``, or the high word of that with the word above ``a`` as a third operand."""
    shift = s.words[-1] & 31
    if not i.has("HI"):
        total = ((s.word(0) << shift) & MASK) + s.raw(1)
        return Results((total & MASK,), (total > MASK,))
    above = np.where(s.word(0) >= 1 << 31, MASK, 0) if i.has("SX32") else s.word(2)
    wide = _pair(above, s.word(0))
    moved = ((wide << shift.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
    total = moved + s.raw(1) + (s.carry() if i.has("X") else 0)
    return Results((total & MASK,), (total > MASK,))


def _funnel_shift(i: Instruction, s: Sources) -> Results | None:
    low, shift, high = s.word(0), s.word(1), s.word(2)
    wide = _pair(high, low)
    if i.has("W"):
        shift = shift & 31
    shift = np.minimum(shift, 63).astype(np.uint64)
    if i.has("L"):
        moved = wide << shift
    elif i.has("S32") or i.has("S64"):
        moved = (wide.view(np.int64) >> shift.view(np.int64)).view(np.uint64)
    else:
        moved = wide >> shift
    part = moved >> np.uint64(32) if i.has("HI") else moved
    return Results(((part & np.uint64(MASK)).astype(np.int64),))


def _logic(i: Instruction, s: Sources) -> Results:
    table = int(s.words[3].flat[0])
    a, b, c = (s.word(k) for k in range(3))
    total = np.zeros_like(a)
    for k in range(8):
        if table >> k & 1:
            total |= (a if k & 4 else a ^ MASK) & (b if k & 2 else b ^ MASK) & (c if k & 1 else c ^ MASK)
    return Results((total,), (total != 0,))


def _predicate_logic(i: Instruction, s: Sources) -> Results:
    position = s.flags[0] * 4 + s.flags[1] * 2 + s.flags[2] * 1
    tables = [int(w.flat[0]) for w in s.words]
    return Results((), tuple((t >> position & 1).astype(bool) for t in tables))


_COMPARE: dict[str, Callable[[Words, Words], Flags]] = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip


def _compare(i: Instruction, s: Sources) -> Results:
    a, b = s.word(0), s.word(1)
    if not i.has("U32"):
        a, b = signed(a), signed(b)
    name = i.modifiers[0]
    outcome = _COMPARE[name](a, b)
    if i.has("EX"):  # the low words were compared by the previous instruction
        low = s.flags[1]
        equal = a == b
        outcome = outcome | low if name == "NE" else np.where(equal, low, outcome)
    with_ = s.flags[0]
    joined = {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor}
    join = next(joined[m] for m in i.modifiers if m in joined)
    return Results((), (join(outcome, with_), join(~outcome, with_)))


def _minimum(i: Instruction, s: Sources) -> Results | None:
    if any("x2" in m for m in i.modifiers):
        return None
    a, b = s.word(0), s.word(1)
    if i.opcode.endswith("VIADDMNMX"):
        a, b = (a + b) & MASK, s.word(2)
    x, y = (a, b) if i.has("U32") else (signed(a), signed(b))
    least = s.flags[0]
    result = np.where(least, np.minimum(x, y), np.maximum(x, y))
    if i.opcode.startswith("VIMNMX3"):
        z = s.word(2) if i.has("U32") else signed(s.word(2))
        result = np.where(least, np.minimum(result, z), np.maximum(result, z))
    return Results((result & MASK,))


def _permute_bytes(i: Instruction, s: Sources) -> Results | None:
    if i.modifiers:
        return None
    both = _pair(s.word(2), s.word(0))
    total = np.zeros_like(s.word(0))
    for k in range(4):
        choice = s.word(1) >> 4 * k & 15
        byte = (both >> ((choice & 7) * 8).astype(np.uint64) & np.uint64(255)).astype(np.int64)
        sign = np.where(byte >= 128, 255, 0)
        total |= np.where(choice & 8, sign, byte) << 8 * k
    return Results((total,))


def _move(i: Instruction, s: Sources) -> Results:
    return Results((s.word(0),))


def _select(i: Instruction, s: Sources) -> Results:
    return Results((np.where(s.flags[0], s.word(0), s.word(1)),))


def _absolute(i: Instruction, s: Sources) -> Results:
    return Results((np.abs(signed(s.word(0))) & MASK,))


def _count_bits(i: Instruction, s: Sources) -> Results:
    return Results((np.bitwise_count(s.word(0)).astype(np.int64),))


MEANING: dict[str, Meaning] = {
    "MOV": _move, "UMOV": _move, "R2UR": _move,
    "IADD3": _add, "UIADD3": _add, "VIADD": _add, "IADD": _add,
    "IMAD": _multiply_add, "UIMAD": _multiply_add,
    "LEA": _scaled_add, "ULEA": _scaled_add,
    "SHF": _funnel_shift, "USHF": _funnel_shift,
    "LOP3": _logic, "ULOP3": _logic, "PLOP3": _predicate_logic, "UPLOP3": _predicate_logic,
    "ISETP": _compare, "UISETP": _compare,
    "IMNMX": _minimum, "UIMNMX": _minimum, "VIMNMX": _minimum, "VIMNMX3": _minimum, "VIADDMNMX": _minimum,
    "PRMT": _permute_bytes, "UPRMT": _permute_bytes, "SEL": _select, "USEL": _select,
    "IABS": _absolute, "POPC": _count_bits, "UPOPC": _count_bits,
}  # fmt: skip
