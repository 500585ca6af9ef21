"""Single blocks of grids over more than 2**32 points: indices, bounds of lane loops and guards in 64 bits.

Arrays are sparse files: only the pages that the blocks access take memory.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, cast, uint8
from autosched.analysis.bind import bind
from autosched.codegen.c import kernel_text
from autosched.codegen.cuda import print_cuda
from autosched.lower.program import Program, lower
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.codegen.harness import compile_c

x, y, z = Var("x"), Var("y"), Var("z")
LONG = (1 << 32) + 1
DIMENSIONS = """
static struct { unsigned x, y, z; } blockIdx, threadIdx;
#define KERNEL(name, ...) void name
#define ITER(depth, value) ((void)0)
#define ROLLED
"""
"""Definitions with which CUDA C without barriers runs as C, one thread after another."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
TARGETS = {name: replace(get_target(name), memory_bytes=1 << 60) for name in ("cpu", "h200")}


def sparse(path: Path, shape: Sequence[int]) -> Bytes:
    """Return an array of bytes in a sparse file."""
    return np.memmap(path, np.uint8, "w+", shape=tuple(shape))


def run_blocks(program: Program, arrays: Sequence[Bytes], blocks: Sequence[int], target: str, directory: Path) -> None:
    """Run some blocks of a program with one kernel, numbered along its block loops; overflow aborts the process."""
    (ir,) = program.without_vectors().kernels
    call = f"{ir.name}({{}}{', '.join(f'a[{k}]' for k in range(len(arrays)))});"
    if target == "cpu":
        body, steps = kernel_text(ir), [call.format("block, ")]
    else:
        k = print_cuda(ir)
        body = DIMENSIONS + k.body
        steps = [
            f"blockIdx.x = block % {k.grid[0]};",
            f"blockIdx.y = block / {k.grid[0]} % {k.grid[1]};",
            f"blockIdx.z = block / {k.grid[0]} / {k.grid[1]};",
            *(
                f"for (threadIdx.{d} = 0; threadIdx.{d} < {n}; threadIdx.{d}++)"
                for d, n in zip("xyz", k.block, strict=True)
            ),
            call.format(""),
        ]
    lines = "\n    ".join(steps)
    library = compile_c(f"{body}\nvoid run_block(long long block, void* const* a) {{\n    {lines}\n}}\n", directory)
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    for block in blocks:
        library.run_block(ctypes.c_longlong(block), pointers)


def shape_with(axis: int, n: int) -> tuple[int, int, int]:
    """Return a shape that is long in one dimension and two points wide in the others."""
    return (n if axis == 0 else 2, n if axis == 1 else 2, n if axis == 2 else 2)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", range(3))
def test_ends_of_a_long_dimension(axis: int, target: str, tmp_path: Path) -> None:
    """Only blocks at the ends of the grid have effective clamps; they and one in the middle are run."""
    image, out = Input("image", uint8, 3), Func("out")
    near = image.clamped()
    before, after = ([v + step * (k == axis) for k, v in enumerate((z, y, x))] for step in (-2, 1))
    out[z, y, x] = near[*before] + near[*after] * 3 + cast("uint8", (x + 5 * y + 7 * z) % 251)
    shape = shape_with(axis, LONG)
    box = {d: (0, n) for d, n in zip("zyx", shape, strict=True)}
    bound = bind(Pipeline([out.over(**box)], name="long"), {"image": shape})
    program = lower(bound, schedule_roots(bound, TARGETS[target]))
    ends = [(0, 2000), (LONG // 2 - 1000, LONG // 2 + 1000), (LONG - 2000, LONG)]
    source, found = (sparse(tmp_path / name, shape) for name in ("source", "found"))
    rng = np.random.default_rng(0)
    for lo, hi in ends:
        window = tuple(slice(lo, hi) if k == axis else slice(None) for k in range(3))
        source[window] = rng.integers(0, 256, source[window].shape, np.uint8)
    grid = [n for _, n in program.kernels[0].grid_loops]
    count = prod(grid)
    tile = -(-LONG // grid[axis])
    along = {0, 1, LONG // 2 // tile, grid[axis] - 2, grid[axis] - 1}
    inner, outer = prod(grid[axis + 1 :]), prod(grid[:axis])
    blocks = sorted(o * inner * grid[axis] + b * inner + i for o in range(outer) for b in along for i in range(inner))
    assert blocks[-1] == count - 1
    run_blocks(program, [source, found], blocks, target, tmp_path)
    for b in sorted(along):
        lo, hi = b * tile, min((b + 1) * tile, LONG)
        window = tuple(slice(lo, hi) if k == axis else slice(None) for k in range(3))
        at = np.meshgrid(
            *(np.arange(n) if k != axis else np.arange(lo, hi) for k, n in enumerate(shape)), indexing="ij"
        )
        moved = [[np.clip(a + step * (k == axis), 0, shape[k] - 1) for k, a in enumerate(at)] for step in (-2, 1)]
        values = source[*moved[0]].astype(int) + source[*moved[1]].astype(int) * 3
        wanted = (values + (at[2] + 5 * at[1] + 7 * at[0]) % 251) % 256
        np.testing.assert_array_equal(found[window], wanted, err_msg=f"block {b}")


@pytest.mark.parametrize(("terms", "kind"), [((1 << 31) - 1, "int"), (1 << 31, "long long"), (LONG, "long long")])
def test_loops_of_more_iterations_than_an_int_holds_have_64_bit_counters(terms: int, kind: str) -> None:
    image, total = Input("image", uint8, 1), Func("total")
    r = RDom("r", i=terms)
    total[()] = cast("int64", 0)
    total[()] += cast("int64", image[r.i])
    bound = bind(Pipeline(total, name="long"), {"image": (terms,)})
    for target in TARGETS.values():
        (ir,) = lower(bound, schedule_roots(bound, target)).kernels
        for text in (print_cuda(ir).body, kernel_text(ir)):
            assert re.search(rf"for \({kind} (\w+) = 0; \1 < {terms}; \1\+\+\)", text)
