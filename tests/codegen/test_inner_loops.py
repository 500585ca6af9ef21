"""Inner loops of matrix products and convolutions in machine code, and the loops that are found in it."""

from __future__ import annotations

from typing import Any

import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import violations
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree

pytestmark = pytest.mark.usefixtures("nvdisasm")


def product(rows: int, depth: int, columns: int) -> BoundPipeline:
    return bind(get_app("sgemm").build(), {"A": (rows, depth), "B": (depth, columns)})


def machine_code(source: str, name: str, nvdisasm: str) -> tuple[Any, Any]:
    from sass.disassembly import disassemble

    compiled = compile_cubin(source, "sm_90", name=name)
    return disassemble(compiled.code, nvdisasm)[name], compiled.kernels[name]


def test_loops_inside_loops_are_found(nvdisasm: str) -> None:
    from sass.loops import innermost_loops, whole

    body = """extern "C" __global__ void k(float* o, const float* x, int n) {
        float sum = 0;
        for (int i = 0; i < n; i++) {
            float part = 1;
            #pragma unroll 1
            for (int j = 0; j < i; j++) part = part * x[j] + 2.0f;
            sum += part / x[n + i];
        }
        #pragma unroll 1
        for (int i = 0; i < n; i++) sum += x[2 * n + i];
        o[threadIdx.x] = sum;
    }"""
    code, _ = machine_code(body, "k", nvdisasm)
    inner, last = innermost_loops(code)
    assert inner.opcodes["FFMA"] == 1 and inner.opcodes["LDG"] == 1
    assert last.opcodes["FADD"] == 1 and last.opcodes["FFMA"] == 0
    assert not inner.blocks & last.blocks
    everything = whole(code)
    assert everything.instructions == len(code.instructions)
    assert everything.opcodes["LDG"] == 3


def test_kernels_without_loops_have_none(nvdisasm: str) -> None:
    from sass.loops import innermost_loops

    code, _ = machine_code('extern "C" __global__ void k(float* o) { o[threadIdx.x] = 1; }', "k", nvdisasm)
    assert innermost_loops(code) == []


@pytest.mark.parametrize("double_buffered", [False, True])
def test_a_large_tile_of_a_product_does_little_but_multiply_and_add(nvdisasm: str, double_buffered: bool) -> None:
    from sass.loops import innermost_loops

    from autosched.apps.hand_schedules.products import ProductTile, tiled_product

    bound = product(128, 64, 256)
    found = tiled_product(bound, ProductTile(double_buffered=double_buffered))
    assert violations(bound, found, get_target("h200")) == []
    assert from_json(to_json(bound, found), bound) == found
    program = lower(bound, found)
    (kernel,) = program.kernels
    printed = print_cuda(kernel)
    code, resources = machine_code(printed.source, printed.name, nvdisasm)
    (loop,) = (loop for loop in innermost_loops(code) if loop.opcodes["FFMA"])
    assert loop.opcodes["FFMA"] == 8 * 8 * 16  # a step of 16 terms
    assert loop.share("FFMA") >= 0.9
    assert loop.wide_shared_loads == 16 * 4  # eight elements of each matrix for a term
    assert loop.opcodes["LDS"] == loop.wide_shared_loads
    assert resources.spill_store_bytes == 0
    assert_backends_agree(bound, program)


@pytest.mark.parametrize("double_buffered", [False, True])
def test_a_large_tile_of_a_convolution_does_little_but_multiply_and_add(nvdisasm: str, double_buffered: bool) -> None:
    from sass.loops import innermost_loops

    from autosched.apps.hand_schedules.convolutions import ConvolutionTile, tiled_convolution

    shapes = {"input": (1, 22, 15, 32), "filter": (32, 3, 3, 128), "bias": (128,)}  # blocks at both borders are partial
    bound = bind(get_app("conv_layer").build(), shapes)
    found = tiled_convolution(bound, ConvolutionTile(double_buffered=double_buffered))
    assert violations(bound, found, get_target("h200")) == []
    assert from_json(to_json(bound, found), bound) == found
    program = lower(bound, found)
    (kernel,) = program.kernels
    printed = print_cuda(kernel)
    code, resources = machine_code(printed.source, printed.name, nvdisasm)
    loop = max(innermost_loops(code), key=lambda loop: loop.opcodes["FFMA"])
    assert loop.opcodes["FFMA"] == 8 * 8 * 16
    assert loop.share("FFMA") >= (0.86 if double_buffered else 0.9)
    assert loop.wide_shared_loads == 16 * 4
    assert resources.spill_store_bytes == 0
    assert_backends_agree(bound, program)
