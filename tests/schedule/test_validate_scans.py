"""Legality of scans over rows, and their text and hashes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.structural_hash import structural_hash
from autosched.schedule.io.text import schedule_text
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import ComputeAt, Level, Root, Schedule, StageId, StageTiling
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.schedule.building import loops, member
from tests.schedule.scans import batch, scan_of, seam, two_loops, viterbi, walked

H200 = get_target("h200")


def with_scan(bound: BoundPipeline, text: str) -> Schedule:
    found = schedule_roots(bound, H200)
    scan = scan_of(bound)
    other = Root(StageTiling(StageId(scan.func, scan.number), loops(text)))
    return replace(found, kernels=(*found.kernels[:-1], replace(found.kernels[-1], roots=(other,))))


LEGAL = {
    "a thread": (seam, "rr.y=8 sx=13"),
    "a thread for each image": (batch, "bb=1 tb=3 rr.y=5 sx=9"),
    "a block": (seam, "bx=1 rr.y=8 tx=13"),
    "a block for each image": (batch, "bb=3 bx=1 rr.y=5 tx=9"),
    "launches": (seam, "rr.y=8 bx=3 tx=5"),
    "columns of the reduction domain": (walked, "rr.y=6 br.x=2 tr.x=5"),
    "columns in order": (walked, "rr.y=6 rr.x=10"),
    "terms inside threads": (viterbi, "rr.t=5 bx=1 tx=11 rr.k=11"),
    "two loops": (two_loops, "bx=1 rr.y=4 rr.g=3 tx=9"),
}

ILLEGAL = {
    "a row split over blocks": (
        seam,
        "bx=2 rr.y=8 tx=7",
        "loop x is split over blocks, so the loops over r.y must come first",
    ),
    "a row split over blocks of one thread": (
        seam,
        "bx=13 rr.y=8",
        "loop x is split over blocks, so the loops over r.y must come first",
    ),
    "steps inside threads": (seam, "bx=1 tx=13 rr.y=8", "one reduction loop each over r.y must come right after"),
    "steps in two loops": (seam, "bx=1 rr.y=2 rr.y=4 tx=13", "one reduction loop each over r.y must come right"),
    "rows outside steps": (seam, "sx=13 rr.y=8", "loop x must be inside the loops over r.y"),
    "one step loop of two": (two_loops, "bx=1 rr.y=4 tx=9 rr.g=3", "over r.y, r.g must come right after"),
    "columns out of order": (walked, "rr.y=6 sr.x=10", "loop r.x carries a dependence"),
    "blocks between steps and threads": (
        batch,
        "bb=3 rr.y=5 bx=1 tx=9",
        "block loops of m.1 must come before its other loops",
    ),
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal_loops(name: str) -> None:
    make, text = LEGAL[name]
    bound = make()
    found = with_scan(bound, text)
    assert violations(bound, found, H200) == []
    assert from_json(to_json(bound, found), bound) == found


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_loops(name: str) -> None:
    make, text, why = ILLEGAL[name]
    bound = make()
    (found, *_) = violations(bound, with_scan(bound, text), H200)
    assert why in found


def test_too_many_launches() -> None:
    bound = seam(20_000, 4)
    (found,) = violations(bound, with_scan(bound, "rr.y=19999 bx=2 tx=2"), H200)
    assert "19999 steps need as many launches, the limit is 16384 per kernel" in found
    assert violations(bound, with_scan(bound, "bx=1 rr.y=19999 tx=4"), H200) == []


def test_a_scan_is_no_fused_producer() -> None:
    bound = bind(seam().pipeline, {"image": (9, 13)})
    found = schedule_roots(bound, H200)
    scan = found.kernels[-1]
    inside = member(ComputeAt(Level.BLOCK, StageId("m", 1), 0), ("y", "x"), m="sy=9 sx=13", m__1="rr.y=8 sx=13")
    wrong = replace(found, kernels=(replace(scan, fused=(inside,)),))
    assert violations(bound, wrong, H200) != []


def test_texts_and_hashes_differ_between_the_forms() -> None:
    bound = seam()
    block, launches = (with_scan(bound, t) for t in ("bx=1 rr.y=8 tx=13", "rr.y=8 bx=4 tx=4"))
    text = schedule_text(bound, block)
    assert "reduction r.y 8  (block-uniform)\n    barrier\n    m.1[x 13]: to global memory" in text
    assert "  reduction r.y 8  (one launch each)\n    block x 4  (step 4)\n" in schedule_text(bound, launches)
    assert structural_hash(block, 4) != structural_hash(launches, 4)
    thread = with_scan(bound, "rr.y=8 sx=13")
    assert len({structural_hash(s, 9) for s in (block, launches, thread)}) == 3
