"""Small pipelines whose generated text once grew out of all proportion."""

from __future__ import annotations

from autosched import Expr, Func, Input, Pipeline, Var, clamp, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import print_cuda
from tests.lower.inspect_ir import lowered
from tests.schedule.building import block, kernel, member, root, schedule

POINTS = 60
x = Var("x")


def sweeps(steps: int) -> BoundPipeline:
    """Return a chain of stages that each read the stage before at clamped points."""
    img, out = Input("img", float32, 1), Func("out")

    def around(f: Func | Input) -> Expr:
        left, right = clamp(x - 1, 0, POINTS - 1), clamp(x + 1, 0, POINTS - 1)
        sum_: Expr = f[left] + f[x] + f[right]
        return sum_

    stage: Func | Input = img
    for n in range(steps):
        following = Func(f"step_{n}")
        following[x] = around(stage)
        stage = following
    out[x] = around(stage)
    return bind(Pipeline([out.over(x=(0, POINTS))], name="sweeps"), {"img": (POINTS,)})


def test_origins_of_clamped_regions_stay_as_short_as_one_clamp() -> None:
    """Each region is the hull of clamped reads of the next: every step once doubled the text of its origin."""
    bound = sweeps(12)
    members = [member(block("out", 1), ["x"], **{f"step_{n}": "tx=32"}) for n in range(12)]
    text = print_cuda(lowered(bound, schedule(bound, kernel(bound, [root("out", "bx=8 tx=8")], members)))).body
    assert max(map(len, text.splitlines())) < 250
