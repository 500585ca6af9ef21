"""Runs of blocks with one outcome: the same as by enumeration, for any number of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.analysis.indices import index as ix
from autosched.lower.builder import CheckedIndex
from autosched.lower.passes import condition_intervals as of
from autosched.lower.passes.condition_intervals import Runs, possible_outcomes, runs_of
from autosched.lower.passes.partition_interior import interior_box

KINDS = ("sign", "nonnegative", "split", "nonzero", "quotient")
LONG = 1 << 40


@st.composite
def conditions(draw: st.DrawFn, most: int) -> CheckedIndex:
    """A condition on clamps, quotients and remainders of a block's points."""
    at = ix.add(ix.scale(ix.var("b", 0, most - 1), draw(st.integers(1, 8))), ix.var("t", 0, draw(st.integers(0, 7))))
    at = ix.add(at, draw(st.integers(-40, 40)))
    for _ in range(draw(st.integers(0, 2))):
        match draw(st.sampled_from(("min", "max", "div", "mod", "neg"))):
            case "min":
                at = ix.minimum(at, draw(st.integers(-40, 400)))
            case "max":
                at = ix.maximum(at, draw(st.integers(-40, 400)))
            case "div":
                at = ix.floordiv(at, draw(st.integers(2, 90)))
            case "mod":
                at = ix.mod(at, draw(st.integers(2, 300)))
            case _:
                at = ix.sub(draw(st.integers(-40, 400)), at)
    return CheckedIndex(draw(st.sampled_from(KINDS)), at, draw(st.integers(2, 90)))


def enumerated(c: CheckedIndex, extent: int) -> list[int]:
    """Return for each block the end of the run that begins with it, itself where it is undecided."""
    blocks = np.arange(extent)
    best = list(range(extent))
    for way in possible_outcomes(c, {"b": (blocks, blocks)}, (extent,)):
        for b in range(extent):
            end = b
            while end < extent and way.yes[end] and way.value[end] == way.value[b]:
                end += 1
            best[b] = max(best[b], end)
    return best


def spread(runs: Runs) -> list[int]:
    """Return the same of runs."""
    at = np.searchsorted(runs.starts, np.arange(runs.extent), "right") - 1
    return [int(runs.ends[k]) or b for b, k in enumerate(at)]


@settings(deadline=None, max_examples=200)
@given(st.data(), st.integers(1, 150), st.integers(1, 9), st.integers(2, 5))
def test_runs_are_those_of_all_blocks_one_by_one(data: st.DataObject, extent: int, first: int, parts: int) -> None:
    c = data.draw(conditions(extent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of, "FIRST_RANGES", first)
        patch.setattr(of, "PARTS", parts)
        found = runs_of(c, "b", extent)
    wanted = enumerated(c, extent)
    assert spread(found) == wanted
    lengths = [end - b for b, end in enumerate(wanted)]
    start, end = found.longest()
    assert (start, end - start) == (lengths.index(max(lengths)), max(lengths))


@settings(deadline=None, max_examples=100)
@given(st.data(), st.integers(1, 100))
def test_two_conditions_hold_until_the_first_of_both_ends(data: st.DataObject, extent: int) -> None:
    a, b = (runs_of(data.draw(conditions(extent)), "b", extent) for _ in range(2))
    assert spread(a.shortened(b)) == [min(p, q) for p, q in zip(spread(a), spread(b), strict=True)]


def test_a_clamp_over_many_blocks() -> None:
    block, point = ix.var("b", 0, LONG - 1), ix.var("t", 0, 31)
    at = ix.add(ix.scale(block, 32), point)
    before = CheckedIndex("sign", ix.sub(at, 3))  # of max(at - 3, 0)
    beyond = CheckedIndex("nonnegative", ix.sub(32 * LONG - 40, at))
    assert interior_box([before, beyond], (("b", LONG),)) == {"b": (1, LONG - 3)}


def test_outcomes_that_change_too_often_are_undecided() -> None:
    """Each row of 96 blocks has one quotient: no run is worth a body of its own, and not all can be listed."""
    at = ix.add(ix.scale(ix.var("b", 0, LONG - 1), 32), ix.var("t", 0, 31))
    found = runs_of(CheckedIndex("quotient", at, 96 * 32), "b", LONG)
    assert len(found.starts) <= of.MOST_RANGES
    assert interior_box([CheckedIndex("quotient", at, 96 * 32)], (("b", LONG),)) == {"b": (0, LONG - 1)}
