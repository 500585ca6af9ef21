"""Loop partitioning: the interior box is exact, and its code has no clamps and guards."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import Func, Input, Pipeline, Var, float32, select
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.codegen.cuda import print_cuda
from autosched.lang.expr import Expr
from autosched.lower.builder import CheckedIndex
from autosched.lower.ir import If
from autosched.lower.passes.partition_interior import interior_box as solve
from autosched.lower.passes.partition_interior import longest_run
from tests.lower.inspect_ir import app, border, count, fused, index_kinds, interior, interior_box, lowered
from tests.schedule.building import blur, blur_with_shared, kernel, root, schedule

CLAMPS = {"min", "max", "mod", "select"}


@pytest.mark.parametrize(
    "name", ["blur_forma", "unsharp", "unsharp_polymage", "harris", "harris_gray", "stencil_chain"]
)
def test_no_clamp_and_no_guard_in_the_interior(name: str) -> None:
    bound = app(name, {"W": 300, "H": 200})
    (out,) = (f for f in bound.funcs.values() if f.is_output)
    blocks = " ".join(
        f"b{d}={-(-n // {'y': 8, 'x': 32}.get(d, 1))}" for d, n in zip(out.dims, out.extents, strict=True)
    )
    ir = lowered(bound, fused(bound, f"{blocks} tx=32 ty=8"))
    inside = interior(ir)
    assert inside is not None
    assert count(inside, If) == 0
    assert not index_kinds(inside) & CLAMPS
    assert count(border(ir), If) > 0


@pytest.mark.parametrize("name", ["blur_forma", "harris_gray"])
def test_the_text_has_none_either(name: str) -> None:
    """Nothing is left of them but the threads of a smaller nest: a block has as many as its largest nest."""
    bound = app(name, {"W": 300, "H": 200})
    (out,) = (f for f in bound.funcs.values() if f.is_output)
    by, bx = -(-out.extents[0] // 8), -(-out.extents[1] // 32)
    text = print_cuda(lowered(bound, fused(bound, f"by={by} bx={bx} tx=32 ty=8"))).body
    inside, outside = text[text.index("// interior") :].split("} else {")
    assert "<= " in outside and "<= " not in inside
    assert ("as_min" in outside) == (name == "blur_forma")  # the other one reads only inside its input
    assert "as_min" not in inside and "as_max" not in inside and " ? " not in inside
    conditions = re.findall(r"if \((.*)\) {", inside)
    assert all(re.fullmatch(r"\w+ < \d+( && \w+ < \d+)*", c) for c in conditions)


def oracle(bound: BoundPipeline, tile: tuple[int, int]) -> set[tuple[int, int]]:
    """Return the blocks of the blur whose tile is whole and whose reads all lie inside the image."""
    height, width = bound.shapes["img"]
    found = set()
    for by, bx in itertools.product(range(-(-height // tile[0])), range(-(-width // tile[1]))):
        rows = range(by * tile[0] - 1, (by + 1) * tile[0] + 1)
        columns = range(bx * tile[1] - 1, (bx + 1) * tile[1] + 1)
        if rows[0] >= 0 and rows[-1] < height and columns[0] >= 0 and columns[-1] < width:
            found.add((by, bx))
    return found


def blocks_of(box: dict[str, tuple[int, int]]) -> set[tuple[int, ...]]:
    return set(itertools.product(*(range(lo, hi + 1) for lo, hi in box.values())))


@pytest.mark.parametrize("size", [(53, 77), (64, 96), (65, 97), (63, 95), (40, 200)])
def test_the_box_is_every_interior_block(size: tuple[int, int]) -> None:
    bound = blur(*size)
    by, bx = -(-size[0] // 8), -(-size[1] // 32)
    ir = lowered(bound, fused(bound, f"by={by} bx={bx} tx=32 ty=8"))
    assert blocks_of(interior_box(ir)) == oracle(bound, (8, 32))


def test_the_box_with_a_producer_in_another_kernel() -> None:
    """The last kernel reads an intermediate that has the rows around the image, so only partial tiles matter."""
    bound = blur(65, 97)
    first = kernel(bound, [root("across", "by=9 bx=4 tx=32 ty=8")], (), ["img_clamped"])
    ir = lowered(bound, schedule(bound, first, kernel(bound, [root("out", "by=9 bx=4 tx=32 ty=8")])))
    assert interior_box(ir) == {"y_b": (0, 7), "x_b": (0, 2)}


@pytest.mark.parametrize("size", [(16, 64), (9, 33), (8, 32), (15, 300)])
def test_no_second_body_where_no_block_is_inside(size: tuple[int, int]) -> None:
    bound = blur(*size)
    by, bx = -(-size[0] // 8), -(-size[1] // 32)
    assert oracle(bound, (8, 32)) == set()
    assert interior(lowered(bound, fused(bound, f"by={by} bx={bx} tx=32 ty=8"))) is None


def test_no_second_body_where_every_block_is_inside() -> None:
    y, x = Var("y"), Var("x")
    img, out = Input("img", float32, 2), Func("out")
    out[y, x] = img[y, x + 1] * 2
    bound = bind(Pipeline([out.over(y=(0, 64), x=(0, 96))], name="whole"), {"img": (64, 97)})
    ir = lowered(bound, schedule(bound, kernel(bound, [root("out", "by=8 bx=3 tx=32 ty=8")])))
    assert count(ir.body, If) == 0 and not index_kinds(ir.body)


def test_shared_buffers_are_the_same_in_both_bodies() -> None:
    bound = blur()
    ir = lowered(bound, blur_with_shared(bound))
    inside = interior(ir)
    assert inside is not None and ir.shared[0].buffer.count == 34 * 10 - 2 * 10  # 32 columns of 10 rows


# ---- conditions against every block and thread

KINDS = ("sign", "nonnegative", "split", "nonzero", "quotient")


def settled(c: CheckedIndex, blocks: Iterable[dict[str, int]]) -> bool:
    """Whether a condition is decided in one way for all threads of some blocks."""
    threads = {n: range(v.lo, v.hi + 1) for n, v in ix.loop_vars(c.index).items() if n == "t"}
    values = [
        ix.evaluate(c.index, {**block, **dict(zip(threads, at, strict=True))})
        for block in blocks
        for at in itertools.product(*threads.values())
    ]
    match c.kind:
        case "sign":
            return all(v >= 0 for v in values) or all(v <= 0 for v in values)
        case "nonnegative":
            return all(v >= 0 for v in values)
        case "split":
            return all(v >= 0 for v in values) or all(v < 0 for v in values)
        case "nonzero":
            return all(v > 0 for v in values) or all(v < 0 for v in values) or not any(values)
    return len({v // c.divisor for v in values}) == 1


@st.composite
def conditions(draw: st.DrawFn, names: tuple[str, ...]) -> CheckedIndex:
    """A condition on an affine index of some block loops and a thread loop."""
    index: ix.Index = draw(st.integers(-30, 30))
    for name in names:
        index = ix.add(index, ix.scale(ix.var(name, 0, 6), draw(st.integers(-8, 8))))
    index = ix.add(index, ix.scale(ix.var("t", 0, 3), draw(st.integers(-2, 2))))
    return CheckedIndex(draw(st.sampled_from(KINDS)), index, draw(st.integers(2, 20)))


def longest_settled(of: list[CheckedIndex], name: str) -> tuple[int, int] | None:
    """Return the first longest run of 7 blocks in which all conditions are settled."""
    runs = [(k, k + length - 1) for length in range(7, 0, -1) for k in range(8 - length)]
    settles = (run for run in runs if all(settled(c, [{name: k} for k in range(run[0], run[1] + 1)]) for c in of))
    return next(settles, None)


def cuts(c: CheckedIndex, name: str) -> bool:
    """Whether a condition makes the box smaller: constant in some block and, if in all, equal in most."""
    run = longest_settled([c], name)
    each = all(settled(c, [{name: k}]) for k in range(7))
    return run is not None and (not each or run[1] - run[0] + 1 > 5)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.one_of(conditions(("y",)), conditions(("x",))), max_size=4))
def test_conditions_on_one_block_loop_give_the_largest_box(of: list[CheckedIndex]) -> None:
    counted = {name: [c for c in of if name in ix.loop_vars(c.index) and cuts(c, name)] for name in "yx"}
    runs = {name: longest_settled(on, name) for name, on in counted.items()}
    assert solve(of, (("y", 7), ("x", 7))) == (runs if all(runs.values()) else None)


@settings(deadline=None, max_examples=150)
@given(st.lists(conditions(("y", "x")), min_size=1, max_size=3))
def test_conditions_on_two_block_loops_are_constant_in_the_box(of: list[CheckedIndex]) -> None:
    """Or decided in none of its blocks, or in all of them one by one."""
    box = solve(of, (("y", 7), ("x", 7)))
    if box is not None:
        inside = [dict(zip("yx", at, strict=True)) for at in blocks_of(box)]
        for c in of:
            assert settled(c, inside) or len({settled(c, [block]) for block in inside}) == 1, c


@pytest.mark.parametrize(("tile", "planes"), [(1, (2, 17)), (2, (1, 8)), (4, (1, 3))])
def test_one_outcome_for_all_blocks(tile: int, planes: tuple[int, int]) -> None:
    """In a tile of one plane every clamp has one outcome, but blocks with different outcomes share one body."""
    z, x = Var("z"), Var("x")
    img, out = Input("img", float32, 2), Func("out")
    near = img.clamped()
    out[z, x] = near[z - 2, x] + near[z + 2, x]
    bound = bind(Pipeline([out.over(z=(0, 20), x=(0, 64))], name="deep"), {"img": (20, 64)})
    nest = f"bz={20 // tile} bx=2 tx=32" + (f" sz={tile}" if tile > 1 else "")
    ir = lowered(bound, schedule(bound, kernel(bound, [root("out", nest)], (), ["img_clamped"])))
    assert interior_box(ir) == {"z_b": planes, "x_b": (0, 1)}
    assert not index_kinds(interior(ir) or ()) & CLAMPS


@pytest.mark.parametrize("first", [Var("c") % 2 == 0, Var("c") == 0, Var("c") < 2])
def test_a_condition_on_the_block_leaves_no_boundary(first: Expr) -> None:
    """Blocks take different sides of a select on their own index, but none of them diverges."""
    c, x = Var("c"), Var("x")
    img, out = Input("img", float32, 1), Func("out")
    out[c, x] = select(first, img[x], -img[x])
    bound = bind(Pipeline([out.over(c=(0, 4), x=(0, 64))], name="muxed"), {"img": (64,)})
    assert interior(lowered(bound, schedule(bound, kernel(bound, [root("out", "bc=4 bx=2 tx=32")])))) is None


def test_longest_run() -> None:
    assert longest_run(np.array([True, False, True, True, False])) == (2, 3)
    assert longest_run(np.array([False, False])) is None
    assert longest_run(np.array([True])) == (0, 0)
