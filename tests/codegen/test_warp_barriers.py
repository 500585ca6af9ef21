"""Blocks of one warp, and warps with tiles of their own, wait for the warp's threads, by no barrier of the block."""

from __future__ import annotations

import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import CudaKernel, print_cuda
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.schedule.legality.validate import validate
from autosched.schedule.types import Schedule
from autosched.target import get_target
from tests.schedule import building

H200 = get_target("h200")


def blur(x: int, y: int) -> tuple[BoundPipeline, Schedule]:
    """Return a blur with its rows in shared memory, for blocks of ``x`` by ``y`` threads with one point each."""
    bound = building.blur()
    rows, columns = bound.funcs["out"].extents
    root = building.root("out", f"by={-(-rows // y)} bx={-(-columns // x)} tx={x} ty={y}")
    across = building.member(building.block("out", 2), ("y", "x"), across=f"tx={x} ty={y} sy=3")
    return bound, building.schedule(bound, building.kernel(bound, [root], [across], ["img_clamped"]))


def printed(x: int, y: int) -> CudaKernel:
    return only_kernel(*blur(x, y))


def only_kernel(bound: BoundPipeline, schedule: Schedule) -> CudaKernel:
    validate(bound, schedule, H200)
    (found,) = lower(bound, schedule).kernels
    return print_cuda(found)


def opcodes(found: CudaKernel, nvdisasm: str) -> set[str]:
    from sass.disassembly import disassemble

    code = disassemble(compile_cubin(found.source, "sm_90", name=found.name).code, nvdisasm)[found.name]
    return {i.opcode.split(".")[0] for i in code.instructions}


@pytest.mark.parametrize(("x", "y", "lanes"), [(32, 1, "0xffffffff"), (8, 4, "0xffffffff"), (7, 2, "0x3fff")])
def test_blocks_of_one_warp_wait_for_its_threads(x: int, y: int, lanes: str) -> None:
    found = printed(x, y)
    assert f"WARP_BARRIER({lanes}u);" in found.body and " BARRIER()" not in found.body
    assert "#define WARP_BARRIER(lanes) __syncwarp(lanes)" in found.source


def test_blocks_of_more_threads_wait_for_the_block() -> None:
    found = printed(33, 1)
    assert " BARRIER();" in found.body and "WARP_BARRIER" not in found.source


@pytest.mark.parametrize(("x", "y", "barriers"), [(32, 1, False), (8, 4, False), (7, 2, False), (16, 4, True)])
def test_machine_code(x: int, y: int, barriers: bool, nvdisasm: str) -> None:
    found = opcodes(printed(x, y), nvdisasm)
    assert {"STS", "LDS"} <= found
    assert ("BAR" in found) is barriers


@pytest.mark.parametrize("out", ["by=7 bx=2 wy=2 wx=2 sy=4 tx=24", "by=2 bx=1 wy=8 wx=3 sy=4 tx=32"])
def test_machine_code_of_warp_tiles(out: str, nvdisasm: str) -> None:
    bound = building.blur()
    rows = building.member(building.warp("out", 4), ("y", "x"), across=f"sy=6 tx={out.split('tx=')[1]}")
    made = building.kernel(bound, [building.root("out", out)], [rows], ["img_clamped"])
    found = opcodes(only_kernel(bound, building.schedule(bound, made)), nvdisasm)
    assert {"STS", "LDS"} <= found and "BAR" not in found
