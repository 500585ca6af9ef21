"""Loops that carry a dependence through memory are marked in C, others are not, and results are right."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, cast, clamp, interpret
from autosched import max as larger
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.analysis.indices import index as ix
from autosched.codegen.c import MARKER, print_c
from autosched.lang.dtypes import DType, bool_, float32, float64, int32
from autosched.lower.ir import (
    Alloc,
    Buffer,
    BufferRead,
    CompareIndex,
    For,
    If,
    Let,
    LetIndex,
    LoopRole,
    Memory,
    Stmt,
    Store,
    VarRef,
)
from autosched.lower.passes.cpu.loop_dependence import carries_dependence
from autosched.lower.program import lower
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target

CPU = get_target("cpu")
y, x, b = Var("y"), Var("x"), Var("b")
F = Buffer("f", float32, 1 << 20, Memory.GLOBAL)
OWN = Buffer("own", float32, 64, Memory.REGISTER)
ROW, J = (ix.var(name, 0, 7) for name in "ij")


def loop(name: str, *body: Stmt, extent: int = 8) -> For:
    return For(name, extent, LoopRole.SERIAL, body)


def update(written: ix.Index, *read: ix.Index, buffer: Buffer = F) -> tuple[Stmt, ...]:
    """Return statements that read some elements and write one."""
    names = [f"v{k}" for k in range(len(read))]
    bindings = [Let(n, BufferRead(buffer, e, 0)) for n, e in zip(names, read, strict=True)]
    return (*bindings, Store(buffer, written, VarRef(names[-1] if names else "c", buffer.dtype), 0))


def marked(pipeline: Pipeline, **shapes: tuple[int, ...]) -> list[str]:
    """Return the variables of the loops that are marked in the C of the schedule with a kernel for each stage."""
    bound = bind(pipeline, shapes)
    text = print_c(lower(bound, schedule_roots(bound, CPU))).text
    assert ("#define CARRIES_DEPENDENCE" in text) == (f"{MARKER};" in text)
    return list(_marked(text.splitlines()))


def _marked(lines: list[str]) -> Iterator[str]:
    opened: list[str] = []
    for line in lines:
        if line.strip() == f"{MARKER};":
            found = re.match(r"for \(int (\w+)", opened[-1])
            assert found is not None, "the marker ends the body of a loop"
            yield found[1]
        if line.strip() == "}" and opened:
            opened.pop()
        if line.split("//")[0].rstrip().endswith("{"):
            opened.append(line.strip())


def diagonal(dtype: DType, dy: int, dx: int, height: int, width: int, running: bool = False) -> Pipeline:
    image, f = Input("image", dtype, 2), Func("f")
    r = RDom("r", y=(dy, height), x=(dx, width))
    f[y, x] = image[y, x]
    before = f[r.y - dy, r.x - dx]
    f[r.y, r.x] = larger(before, image[r.y, r.x]) if running else before + image[r.y, r.x]
    return Pipeline(f.over(y=(0, height), x=(0, width)))


@pytest.mark.parametrize("dtype", [float32, float64, int32])
@pytest.mark.parametrize(
    ("dy", "dx", "width", "running"), [(1, 1, 16, False), (1, 2, 12, False), (2, 1, 12, True), (1, 1, 17, True)]
)
def test_sums_and_maxima_along_diagonals_are_right(dtype: DType, dy: int, dx: int, width: int, running: bool) -> None:
    pipeline = diagonal(dtype, dy, dx, 8, width, running)
    image = np.random.default_rng(0).integers(0, 9, (8, width)).astype(dtype.numpy)
    bound = bind(pipeline, {"image": image.shape})
    found = np.zeros_like(image)
    CpuExecutable(lower(bound, schedule_roots(bound, CPU))).run({"image": image}, {"f": found}, {})
    np.testing.assert_array_equal(found, interpret(pipeline, {"image": image})["f"])
    assert marked(pipeline, image=image.shape) == ["r_y"], "columns of one row are independent"


def test_a_sum_along_a_row_is_carried_by_the_loop_over_columns() -> None:
    image, f, r = Input("image", float32, 2), Func("f"), RDom("r", y=8, x=(1, 16))
    f[y, x] = image[y, x]
    f[r.y, r.x] = f[r.y, r.x - 1] + image[r.y, r.x]
    assert marked(Pipeline(f.over(y=(0, 8), x=(0, 16))), image=(8, 16)) == ["r_x"]


def test_a_histogram_is_marked() -> None:
    image, counts, r = Input("image", int32, 1), Func("counts"), RDom("r", i=100)
    counts[b] = cast(float32, 0)
    counts[clamp(image[r.i], 0, 15)] += 1.0
    assert marked(Pipeline(counts.over(b=(0, 16))), image=(100,)) == ["r_i"]


def test_sums_in_place_and_pure_loops_are_not_marked() -> None:
    left, right, r = Input("left", float32, 2), Input("right", float32, 2), RDom("r", k=19)
    product, smooth = Func("product"), Func("smooth")
    product[y, x] = sum_over(left[y, r.k] * right[r.k, x], over=r)
    smooth[y, x] = left.clamped()[y - 1, x] + left.clamped()[y + 1, x]
    both = Pipeline([product.over(y=(0, 13), x=(0, 21)), smooth.over(y=(0, 13), x=(0, 19))])
    assert marked(both, left=(13, 19), right=(19, 21)) == []


def test_each_loop_of_a_nest_answers_for_itself() -> None:
    at = ix.weighted_sum(0, [(ROW, 16), (J, 1)])
    nest = loop("i", loop("j", *update(ix.add(at, 17), at)))
    assert carries_dependence(nest, {})
    inner = nest.body[0]
    assert isinstance(inner, For)
    assert not carries_dependence(inner, {})


def test_reuse_of_the_same_address_is_left_to_compilers_where_it_is_no_distance() -> None:
    assert not carries_dependence(loop("i", loop("j", *update(J, J))), {}), "a sum in place"
    assert carries_dependence(loop("i", loop("j", *update(J, ix.add(J, 1)))), {}), "others' elements"
    tile = (loop("j", Store(OWN, J, VarRef("c", float32), 0)), loop("j", Let("v", BufferRead(OWN, ix.add(ROW, J), 0))))
    assert not carries_dependence(loop("i", *tile), {}), "a tile that is filled anew"
    ring = (
        Store(OWN, ix.mod(ix.add(ROW, 1), 3), VarRef("c", float32), 0),
        Let("v", BufferRead(OWN, ix.mod(ROW, 3), 0)),
    )
    assert carries_dependence(loop("i", *ring), {}), "what the step before has stored"
    assert not carries_dependence(loop("i", Alloc(OWN), *ring), {}), "an array of each iteration"


def test_conditions_and_bound_indices_count() -> None:
    short = CompareIndex("le", J, 4, bool_)
    rows = ix.weighted_sum(0, [(ROW, 5), (J, 1)])
    store = Store(F, rows, VarRef("c", float32), 0)
    assert carries_dependence(loop("i", loop("j", store)), {}), "rows of 8 lie 5 apart"
    assert not carries_dependence(loop("i", loop("j", If(short, (store,)))), {}), "5 of each are written"
    at = LetIndex("at", rows)
    named = Store(F, ix.var("at", 0, 42), VarRef("c", float32), 0)
    assert not carries_dependence(loop("i", loop("j", at, If(short, (named,)))), {})
    outside = {"at": ix.scale(J, 5)}
    assert not carries_dependence(
        loop("i", Store(F, ix.add(ix.var("at", 0, 35), ROW), VarRef("c", float32), 0)), outside
    )


def test_what_depends_on_data_is_carried() -> None:
    data = ix.data(VarRef("v", int32), 0, 7, "v")
    assert carries_dependence(loop("i", Let("v", BufferRead(F, ROW, 0)), *update(data)), {})
    assert not carries_dependence(loop("i", *update(ix.add(ix.scale(ROW, 8), data))), {}), "of each iteration's own row"
    atomic = Store(F, data, VarRef("c", float32), 0, combine="add")
    assert not carries_dependence(loop("i", Let("v", BufferRead(OWN, ROW, 0)), atomic), {})


def test_random_nests_are_judged_as_by_enumeration() -> None:
    rng = random.Random(0)
    carried = 0
    for _ in range(300):
        extents = [rng.randint(1, 5) for _ in "ij"]
        scales = [rng.choice(((6, 1), (1, 6), (5, 1), (4, 1), (3, 2), (2, 2), (7, 0), (0, 1))) for _ in range(2)]
        constants = [rng.randint(0, 9) for _ in range(2)]
        stored, read = (
            ix.weighted_sum(c, [(ix.var(n, 0, e - 1), s) for n, e, s in zip("ij", extents, pair, strict=True)])
            for c, pair in zip(constants, scales, strict=True)
        )
        nest = loop("i", loop("j", *update(stored, read), extent=extents[1]), extent=extents[0])
        found = carries_dependence(nest, {})
        assert found == _by_enumeration(extents, scales, constants), (extents, scales, constants)
        carried += found
    assert 50 < carried < 250


def _by_enumeration(extents: list[int], scales: list[tuple[int, int]], constants: list[int]) -> bool:
    """Whether two iterations of the outer loop access one element, other than in place at one address."""
    points = list(itertools.product(*map(range, extents)))
    pairs = [(0, 0), (0, 1)]
    if scales[0][0] == 0:
        same = scales[0] == scales[1] and constants[0] == constants[1]
        pairs = [(0, 1)] * (not same)
    at = [{p: c + s[0] * p[0] + s[1] * p[1] for p in points} for s, c in zip(scales, constants, strict=True)]
    return any(p[0] != q[0] and at[a][p] == at[b_][q] for a, b_ in pairs for p in points for q in points)
