"""What divides an index for all values of its variables: the proofs behind aligned accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

from autosched.analysis.indices import index as ix


def known_divisor(e: ix.Index, definitions: Mapping[str, ix.Index]) -> int:
    """Return a number that divides an index for all values of its variables; 0 if the index is always 0.

    Args:
        e: The index.
        definitions: What the variables stand for that are no loops.
    """
    known: dict[str, int] = {}

    def total(a: ix.Index) -> int:
        return gcd(a.const, *(c * known[t.key] for t, c in a.terms)) if isinstance(a, ix.Affine) else abs(a)

    stack = [t for t, _ in ix.terms_of(e)]
    while stack:
        t = stack[-1]
        inside = _inside(t, definitions)
        pending = [inner for a in inside for inner, _ in ix.terms_of(a) if inner.key not in known]
        if pending:
            stack += pending
            continue
        stack.pop()
        known[t.key] = _term_multiple(t, [total(a) for a in inside])
    return total(e)


def _inside(t: ix.Term, definitions: Mapping[str, ix.Index]) -> tuple[ix.Index, ...]:
    if isinstance(t, ix.LoopVar):
        return (definitions[t.name],) if t.name in definitions else ()
    return t.args


def _term_multiple(t: ix.Term, inside: Sequence[int]) -> int:
    """Return what divides a term, from what divides its arguments or what it stands for."""
    if isinstance(t, ix.LoopVar):
        return inside[0] if inside else 1
    match t.kind:
        case "min" | "max" | "select":
            return gcd(*inside)
        case "mod":
            return gcd(inside[0], t.payload)
        case "prod":
            return inside[0] * inside[1]
    return 1
