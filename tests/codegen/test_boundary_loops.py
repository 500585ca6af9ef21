"""Serial loops of boundary blocks: NVRTC does not unroll those with guards inside unrolled points."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.bind import bind
from autosched.codegen.cuda import print_cuda
from autosched.lower.program import Program, lower
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.target import get_target
from tests.schedule.building import kernel, root, schedule
from tests.schedule.weighted_sum import one_kernel, weighted, weights

H200 = get_target("h200")
y, x = Var("y"), Var("x")


def loops(program: Program) -> Iterator[tuple[str, bool, str]]:
    """Yield where each serial loop is (interior, border, anywhere), whether guards are inside, and the line before."""
    (ir,) = program.kernels
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in print_cuda(ir).body.splitlines()]
    place, at = "anywhere", -1
    for k, (indent, text) in enumerate(lines):
        if text.endswith("// interior: no clamps, no guards"):
            place, at = "interior", indent
        elif indent == at and text == "} else {":
            place = "border"
        elif indent == at and text == "}":
            place, at = "anywhere", -1
        if text.startswith("for ("):
            end = next(j for j in range(k + 1, len(lines)) if lines[j][0] <= indent and lines[j][1])
            yield place, any(t.startswith("if (") for _, t in lines[k:end]), lines[k - 1][1]


def summed(rows: int, columns: int, inner: str = "sy=2 rr.k=40") -> Program:
    """Return sums over rows of 40 terms in tiles of 8 x 32."""
    image, r, total = Input("image", float32, 2), RDom("r", k=40), Func("total")
    total[y, x] = 0.0
    total[y, x] += image[y, x + r.k]
    bound = bind(Pipeline([total.over(y=(0, rows), x=(0, columns))]), {"image": (rows, columns + 40)})
    tile = f"by={-(-rows // 8)} bx={-(-columns // 32)}"
    roots = [root("total", f"{tile} tx=32 ty=4 sy=2"), root("total.1", f"{tile} tx=32 ty=4 {inner}")]
    return lower(bound, schedule(bound, kernel(bound, roots)))


def test_loops_with_guards_stay_rolled_in_boundary_code() -> None:
    program = summed(41, 70)
    found = list(loops(program))
    guarded = [before for place, inside, before in found if place == "border" and inside and before != "UNROLL"]
    assert guarded and set(guarded) == {"ROLLED"}
    assert all(before != "ROLLED" for place, _, before in found if place != "border")
    assert any(place == "interior" and before != "UNROLL" for place, _, before in found)


def test_loops_around_the_points_are_left_to_the_compiler() -> None:
    found = list(loops(summed(41, 70, "rr.k=40 sy=2")))
    assert any(place == "border" and inside and before != "UNROLL" for place, inside, before in found)
    assert all(before != "ROLLED" for _, _, before in found)


def test_loops_without_guards_are_left_to_the_compiler() -> None:
    """These clamp their indices, and no point of the tiles lies outside."""
    image, r, total = Input("image", float32, 2), RDom("r", k=40), Func("total")
    total[y, x] = 0.0
    total[y, x] += image.clamped()[y, x + r.k]
    bound = bind(Pipeline([total.over(y=(0, 40), x=(0, 96))]), {"image": (40, 128)})
    tile = "by=5 bx=3 tx=32 ty=4"
    roots = [root("total", f"{tile} sy=2"), root("total.1", f"{tile} sy=2 rr.k=40")]
    program = lower(bound, schedule(bound, kernel(bound, roots, [], ["image_clamped"])))
    found = list(loops(program))
    assert {place for place, _, _ in found} == {"interior", "border"}
    assert not any(inside or before == "ROLLED" for _, inside, before in found)


def test_code_without_a_boundary_has_no_marks() -> None:
    assert "ROLLED" not in print_cuda(summed(40, 64).kernels[0]).body


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_registers_are_those_of_the_interior() -> None:
    """Unrolled, the 8 x 30 terms of a boundary thread take all registers and a minute to compile."""
    bound = weighted(30)
    (ir,) = lower(bound, one_kernel(bound, "sx=4 sy=2 rr.k=30", weights(3, ""))).kernels
    source = print_cuda(ir).source
    assert len(re.findall(r"^ *ROLLED$", source, re.MULTILINE)) == 1
    (resources,) = compile_cubin(source, H200.arch).kernels.values()
    assert resources.registers < 128 and resources.spill_bytes == 0
