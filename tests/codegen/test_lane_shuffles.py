"""Shuffles of hybrid tiles: machine code, missing barriers, and lanes that do not take part."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from autosched.codegen.cuda import CudaKernel, print_cuda
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.lower.program import lower
from autosched.runtime.backends.emulator import _spec
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.runtime.emulator import EmulatorError, ErrorKind, compile_emulated
from tests.lower.hybrid_cases import rows, rows_kernel, stencils, stencils_kernel
from tests.schedule.building import schedule


def printed(iterations: int, warps: int = 1) -> CudaKernel:
    bound = rows()
    return print_cuda(lower(bound, schedule(bound, rows_kernel(bound, iterations, 8, warps))).kernels[0])


def run(found: CudaKernel, text: str, arrays: list[np.ndarray], seed: int = 0) -> None:
    compiled = compile_emulated(
        text, found.name, [_spec(p) for p in found.params],
        common_prelude=scalar_prelude(called_scalar_functions(text)), site_depths=found.site_depths,
    )  # fmt: skip
    compiled.launch(found.grid, found.block, found.shared_bytes, arrays, seed)


def images() -> list[np.ndarray]:
    return [np.ones((5, 1026), np.float32), np.zeros((3, 1024), np.float32)]


@pytest.mark.parametrize("warps", [1, 2])
@pytest.mark.parametrize("iterations", [4, 9])
def test_machine_code(iterations: int, warps: int, nvdisasm: str) -> None:
    from sass.disassembly import disassemble

    found = printed(iterations, warps)
    code = disassemble(compile_cubin(found.source, "sm_90", name=found.name).code, nvdisasm)[found.name]
    opcodes = Counter(i.opcode.split(".")[0] for i in code.instructions)
    assert opcodes["SHFL"] == found.body.count("SHUFFLE_LANE") > 0
    assert "BAR" not in opcodes
    assert ("LDS" in opcodes) is (iterations < 9)


def test_tiles_in_registers_alone_need_no_barrier() -> None:
    found = printed(9)
    assert "BARRIER" not in found.body and found.shared_bytes == 0
    run(found, found.body, images())


@pytest.mark.parametrize("seed", range(3))
def test_barriers_of_the_part_in_shared_memory_are_needed(seed: int) -> None:
    bound = stencils(3, 12, 70)
    found = print_cuda(
        lower(bound, schedule(bound, stencils_kernel(bound, (16, 2), (3, 1), "x", (1, 1), (2, 1)))).kernels[0]
    )
    lines = found.body.split("\n")
    barriers = [k for k, line in enumerate(lines) if "WARP_BARRIER" in line]
    assert barriers
    arrays = [np.ones((12, 70), np.float32), np.zeros((12, 70), np.float32)]
    run(found, found.body, arrays, seed)
    for removed in barriers:
        with pytest.raises(EmulatorError) as caught:
            run(found, "\n".join(line for k, line in enumerate(lines) if k != removed), arrays, seed)
        assert caught.value.kind in (ErrorKind.RACE, ErrorKind.UNINITIALISED_READ)


def test_lanes_that_do_not_take_part_are_found() -> None:
    """The lane that a lane reads is not among those of the shuffle, or does not execute it."""
    found = printed(4)
    fewer = found.body.replace("0xffffffffu)", "0x7fffffffu)")
    beyond = found.body.replace("((x_t + 31) & 31)", "x_t + 31")
    conditional = found.body.replace(
        "const float blurx_v3 = SHUFFLE_LANE", "float blurx_v3 = 0; if (x_t > 3) blurx_v3 = SHUFFLE_LANE"
    )
    for wrong in (fewer.replace("WARP_BARRIER(0x7", "WARP_BARRIER(0xf"), beyond, conditional):
        assert wrong != found.body
        with pytest.raises(EmulatorError) as caught:
            run(found, wrong, images())
        assert caught.value.kind is ErrorKind.ABSENT_LANE
