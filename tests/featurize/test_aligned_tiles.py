"""Required regions of aligned tiles that block boundaries cut."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.schedule.types import Level, StageId, TileAlignment
from autosched.target import get_target

F = StageId("f")


@pytest.mark.parametrize(("aligned", "needed"), [(None, 2), (TileAlignment(2, 0), 2), (TileAlignment(2, 1), 3)])
def test_tiles_across_a_multiple_of_a_divisor_have_larger_regions(aligned: TileAlignment | None, needed: int) -> None:
    """A pair of points that begins at an odd point has two quotients in only one of sixteen blocks."""
    image, coarse, fine, f = Input("image", float32, 1), Func("coarse"), Func("fine"), Func("f")
    x = Var("x")
    coarse[x] = image[x] + 1
    fine[x] = coarse[x // 32] + coarse[x // 32 + 1]
    f[x] = fine[x] * 2
    bound = bind(Pipeline([f.over(x=(0, 1300))]), {"image": (48,)})
    locations = (ComputeLocation("coarse", Level.BLOCK, F), ComputeLocation("fine", Level.BLOCK, F, aligned=aligned))
    model = Featurizer(bound, get_target("h200")).model(KernelSketch((F,), locations))
    nests = model.evaluate(np.array([[1, 1, 1, 1, 1, 1]], np.int64)).geometry.nests
    assert {n.stage.func: int(n.covered[0, 0]) for n in nests}["coarse"] == needed
