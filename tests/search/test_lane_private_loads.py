"""Costs of values that are equal in all lanes, but that each lane keeps for itself."""

from __future__ import annotations

from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.bind import bind
from autosched.search.cost.cpu.stage_costs import stage_work

Y, X = Var("y"), Var("x")


def test_sums_of_a_row_in_each_lane_are_vector_operations() -> None:
    image, total, out, r = Input("image", float32, 2), Func("total"), Func("out"), RDom("r", x=64)
    total[Y] = 0.0
    total[Y] += image[Y, r.x]
    out[Y, X] = image[Y, X] * total[Y]
    bound = bind(Pipeline(out.over(y=(0, 64), x=(0, 64))), {"image": (64, 64)}, {})
    update, nothing = bound.stage("total", 1), frozenset[str]()
    once = stage_work(update, nothing).work
    each = stage_work(update, nothing, private=frozenset(("total",))).work
    assert (once.arithmetic, each.once) == (0, 0)
    assert once.once > 0
    assert each.arithmetic == 1
