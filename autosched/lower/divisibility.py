"""Divisibility of indices for all values of their variables, which proves that accesses are aligned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

from autosched.analysis.indices import index as ix


def known_divisor(e: ix.Index, definitions: Mapping[str, ix.Index]) -> int:
    """Return a number that divides an index for all values of its variables; 0 if the index is always 0.

    Args:
        e: The index.
        definitions: Definitions of the variables that are not loop variables.
    """
    divisors: dict[str, int] = {}

    def total(a: ix.Index) -> int:
        return gcd(a.const, *(c * divisors[t.key] for t, c in a.terms)) if isinstance(a, ix.Affine) else abs(a)

    stack = [t for t, _ in ix.terms_of(e)]
    while stack:
        t = stack[-1]
        operands = _operands(t, definitions)
        pending = [inner for a in operands for inner, _ in ix.terms_of(a) if inner.key not in divisors]
        if pending:
            stack += pending
            continue
        stack.pop()
        divisors[t.key] = _term_divisor(t, [total(a) for a in operands])
    return total(e)


def _operands(t: ix.Term, definitions: Mapping[str, ix.Index]) -> tuple[ix.Index, ...]:
    if isinstance(t, ix.LoopVar):
        return (definitions[t.name],) if t.name in definitions else ()
    return t.args


def _term_divisor(t: ix.Term, operands: Sequence[int]) -> int:
    """Return a divisor of a term, from divisors of its arguments or of its definition."""
    if isinstance(t, ix.LoopVar):
        return operands[0] if operands else 1
    match t.kind:
        case "min" | "max" | "select":
            return gcd(*operands)
        case "mod":
            return gcd(operands[0], t.payload)
        case "prod":
            return operands[0] * operands[1]
    return 1
