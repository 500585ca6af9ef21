"""Equations between flat indices are split into those of their dimensions, without losing or adding solutions."""

from __future__ import annotations

import itertools
import random

from autosched.analysis.indices import index as ix
from autosched.lower.passes.cpu.index_equation import Equation, Unknown, split_equation


def unknown(scale: int, name: str, extent: int, side: int = 0) -> Unknown:
    return Unknown(scale, ix.LoopVar(name, 0, extent - 1), side)


def holds(e: Equation, values: dict[tuple[int, str], int]) -> bool:
    return sum(u.scale * values[u.side, u.term.key] for u in e.unknowns) + e.constant == 0


def test_rows_and_columns_have_an_equation_each() -> None:
    terms = [unknown(s * c, n, 10, side) for side, s in ((0, 1), (1, -1)) for n, c in (("y", 10), ("x", 1))]
    found = split_equation(Equation(tuple(terms), -11))
    assert found is not None
    assert [({u.term.key for u in e.unknowns}, e.constant) for e in found] == [({"x", "y"}, -11)], "x may be 10 apart"
    found = split_equation(Equation(tuple(unknown(u.scale, u.term.key, 5, u.side) for u in terms), -11))
    assert found is not None
    assert [({u.term.key for u in e.unknowns}, e.constant) for e in found] == [({"x"}, -1), ({"y"}, -10)]


def test_what_never_holds_is_found_out() -> None:
    assert split_equation(Equation((unknown(4, "x", 9), unknown(-2, "y", 9)), 1)) is None, "no odd number is even"
    assert split_equation(Equation((unknown(1, "x", 9),), 1)) is None, "out of range"
    assert split_equation(Equation((), 0)) == [Equation((), 0)]
    assert split_equation(Equation((), 3)) is None


def test_no_solution_is_lost_or_added() -> None:
    rng = random.Random(0)
    split = 0
    for _ in range(400):
        unknowns = tuple(
            unknown(rng.choice((-1, 1)) * rng.choice((1, 1, 2, 3, 4, 7, 8, 12, 16)), name, rng.randint(1, 5), side)
            for side in (0, 1)
            for name in "xyz"[: rng.randint(1, 2)]
        )
        e = Equation(unknowns, rng.randint(-20, 20))
        found = split_equation(e)
        split += found is not None and len(found) > 1
        keys = [(u.side, u.term.key) for u in unknowns]
        for point in itertools.product(*(range(u.term.interval[1] + 1) for u in unknowns)):
            values = dict(zip(keys, point, strict=True))
            assert holds(e, values) == (found is not None and all(holds(part, values) for part in found))
    assert split > 40
