"""What divides an index for all values of its variables: the proofs behind aligned accesses."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from autosched.analysis import index as ix


def multiple_of(e: ix.Index, definitions: Mapping[str, ix.Index]) -> int:
    """Return a number that divides an index for all values of its variables; 0 if the index is always 0.

    Args:
        e: The index.
        definitions: What the variables stand for that are no loops.
    """
    if not isinstance(e, ix.Affine):
        return abs(e)
    return gcd(e.const, *(c * _term_multiple(t, definitions) for t, c in e.terms))


def _term_multiple(t: ix.Term, definitions: Mapping[str, ix.Index]) -> int:
    if isinstance(t, ix.LoopVar):
        return multiple_of(definitions[t.name], definitions) if t.name in definitions else 1
    args = [multiple_of(a, definitions) for a in t.args]
    match t.kind:
        case "min" | "max" | "select":
            return gcd(*args)
        case "mod":
            return gcd(args[0], t.payload)
        case "prod":
            return args[0] * args[1]
    return 1
