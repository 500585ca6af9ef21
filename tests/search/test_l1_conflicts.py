"""Conflict misses of rows that fall on few sets of the first-level cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.analysis.bind import bind
from autosched.featurize.featurizer import Featurizer, SketchFeaturizer
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.lang.dtypes import DType, float32, uint8
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast
from autosched.lang.pipeline import Pipeline
from autosched.schedule.types import StageId
from autosched.search.cost.cpu.kernel_costs import CpuKernelCosts
from autosched.search.cost.cpu.l1_conflicts import LOST_LOAD, LOST_STORE, associativity, conflict_misses, may_conflict
from autosched.search.cost.cpu.lane_costs import LaneWorks
from autosched.search.cost.cpu.lane_loops import lane_loops
from tests.search.cpu_cases import CPU, counts_of, evaluated, x, y

HEIGHT = 64
STAGE = StageId("f")


def column(taps: int, width: int, dtype: DType = float32) -> tuple[Featurizer, KernelSketch]:
    """Return the kernel of a sum of ``taps`` rows of an image."""
    image, f = Input("image", dtype, 2), Func("f")
    first, *others = [cast(float32, image[y + k, x]) for k in range(taps)]
    f[y, x] = sum(others, first)
    bound = bind(Pipeline([f.over(y=(0, HEIGHT), x=(0, width))]), {"image": (HEIGHT + taps - 1, width)})
    return Featurizer(bound, CPU), KernelSketch((STAGE,))


def lost(kernel: tuple[Featurizer, KernelSketch], rows: int, ways: int = 8) -> float:
    model: SketchFeaturizer = kernel[0].model(kernel[1])
    return rows * conflict_misses(model, LaneWorks(model, {}), STAGE, "x", "y", rows, ways)


@pytest.mark.parametrize(
    ("taps", "width", "rows", "expected"),
    [
        (7, 1024, 1, 0),  # eight rows with the one that is stored to
        (8, 1024, 1, 9 * LOST_LOAD),  # a store alone does not wait for others
        (6, 1024, 4, 9 * LOST_LOAD + 4 * LOST_STORE),
        (3, 1024, 2, 0),
        (6, 1536, 4, 0),  # two sets, with five and four, and two each
        (17, 1536, 1, 9 * LOST_LOAD + LOST_LOAD),  # the even ones and the store
        (20, 1088, 1, 0),  # sixteen sets
        (8, 1032, 1, 0),
    ],
)
def test_conflict_misses(taps: int, width: int, rows: int, expected: float) -> None:
    assert lost(column(taps, width), rows) == pytest.approx(expected)


def test_higher_associativity_keeps_more_rows() -> None:
    assert associativity("GenuineIntel 6 amx") == associativity("AuthenticAMD 26") == 12
    assert associativity("AuthenticAMD 23") == associativity("") == 8
    assert lost(column(8, 1024), 1, 12) == 0 < lost(column(12, 1024), 1, 12)


def test_adjacent_elements_share_a_line() -> None:
    image, f = Input("image", float32, 2), Func("f")
    first, *others = [image[y + k, x + dx] for k in range(5) for dx in range(3)]
    f[y, x] = sum(others, first)
    bound = bind(Pipeline([f.over(y=(0, HEIGHT), x=(0, 1022))]), {"image": (HEIGHT + 4, 1024)})
    assert lost((Featurizer(bound, CPU), KernelSketch((STAGE,))), 1) == 0


def test_conflicts_need_rows_on_few_sets() -> None:
    for width, meets in ((1024, True), (1536, True), (1032, False), (1040, False)):
        featurizer, sketch = column(8, width)
        assert may_conflict(featurizer.model(sketch)) == meets
    narrow = column(8, 4096, uint8)
    assert may_conflict(narrow[0].model(narrow[1])) and lost(narrow, 1) > 0


def test_conflict_misses_count_for_every_evaluation() -> None:
    params = (1, 64, 4, 1)
    kernel = column(6, 1024)
    rows = lane_loops(evaluated(*kernel, *params), lambda model: CpuKernelCosts(model, {}))
    assert rows.jammed[0] == 4
    assert rows.conflict_misses[0] == pytest.approx((9 * LOST_LOAD + 4 * LOST_STORE) / 4)
    assert counts_of(*kernel, *params)["missed_accesses"] == pytest.approx(rows.conflict_misses[0] * HEIGHT * 1024)
    assert counts_of(*column(6, 1032), *params)["missed_accesses"] == 0


def test_associativity_by_processor() -> None:
    featurizer, sketch = column(6, 1024)
    for processor, taken in (("AuthenticAMD 23", 7 * LOST_LOAD + 2 * LOST_STORE), ("AuthenticAMD 26", 0)):
        kernel = Featurizer(featurizer.bound, replace(CPU, processor=processor)), sketch
        rows = lane_loops(evaluated(*kernel, 1, 64, 2, 1), lambda model: CpuKernelCosts(model, {}))
        assert rows.jammed[0] == 2  # nine rows with those that are stored to
        assert rows.conflict_misses[0] == pytest.approx(taken / 2)
