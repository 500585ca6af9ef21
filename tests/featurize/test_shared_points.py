"""Unrolled points of a thread compute shared values once; bytes read count for all threads."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.types import Level, StageId
from autosched.target import get_target
from tests.schedule.building import blur

H200 = get_target("h200")
OUT = StageId("out")


def feature(bound: BoundPipeline, serial: int, name: str, *, amortised: bool) -> float:
    """Return a feature of ``across``, computed in the threads of ``out`` for each of their rows."""
    sketch = KernelSketch((OUT,), (ComputeLocation("across", Level.THREAD, OUT, 1),), frozenset({"img_clamped"}))
    model = Featurizer(bound, H200, amortised=amortised).model(sketch)
    found = model.evaluate(np.array([[1, 32, serial, 1]], np.int64)).features
    return float(found[0, 1, INDEX[name]])


@pytest.mark.parametrize("serial", [1, 4, 8, 16])
def test_rows_that_neighbouring_points_share_are_computed_once(serial: int) -> None:
    bound = blur(64, 96)
    one = feature(bound, 1, "float_operations_per_block", amortised=True) / 3  # of a row
    assert feature(bound, serial, "float_operations_per_block", amortised=True) == one * (serial + 2)
    assert feature(bound, serial, "float_operations_per_block", amortised=False) == one * 3 * serial


def test_rolled_loops_share_no_points() -> None:
    bound = blur(64, 96)
    one = feature(bound, 1, "float_operations_per_block", amortised=True) / 3
    assert feature(bound, 32, "float_operations_per_block", amortised=True) == one * 3 * 32


def test_all_threads_read_the_whole_input() -> None:
    bound = blur(64, 96)
    assert feature(bound, 4, "unique_global_bytes_read_by_kernel", amortised=True) == 64 * 96 * 4
