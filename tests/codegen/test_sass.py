"""Analysis of machine code: trip counts, addresses and sectors of kernels whose counts are known."""

from __future__ import annotations

import functools
import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.lower.ir import KernelIR
from autosched.lower.program import Program, lower
from autosched.runtime.backends.emulator import _spec
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.runtime.emulator import compile_emulated
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import get_target
from tests.schedule import building

SCRIPTS = Path(__file__).parents[2] / "scripts"
HEAD = 'extern "C" __global__ void k(const float* x, const int* m, float* o, int n)'
THREADS = 64


pytestmark = pytest.mark.usefixtures("nvdisasm")


@functools.cache
def costs_of_operations(nvdisasm: str) -> Any:
    """Return the costs of operations; each is compiled and disassembled once for all tests."""
    from sass.costs import OperationCosts

    return OperationCosts(nvdisasm)


def run(body: str, nvdisasm: str, *, n: int = 7, grid: int = 3, block: int = 1, threads: int = THREADS) -> Any:
    """Compile a kernel and run one block of it; return code and counts."""
    from sass.disassembly import disassemble
    from sass.launches import PointerArgument, ScalarArgument, launch_of
    from sass.machine import run_block

    source = f"{HEAD} {{\n{body}\n}}"
    code = disassemble(compile_cubin(source, "sm_90", name="k").code, nvdisasm)["k"]
    arguments = [PointerArgument()] * 3 + [ScalarArgument(np.int32(n))]
    launch = launch_of((grid, 1, 1), (threads, 1, 1), arguments, "sm_90")
    return code, run_block(code, launch, (block, 0, 0))


def issued(found: Any, opcode: str) -> int:
    """Return how often threads came to an instruction."""
    code, execution = found
    return sum(int(n) for i, n in zip(code.instructions, execution.issued, strict=True) if i.opcode == opcode)


def test_straight_line_code(nvdisasm: str) -> None:
    code, execution = run("const int t = threadIdx.x; o[t] = x[t] + x[t + 1];", nvdisasm)
    assert (execution.issued == THREADS).all() and (execution.warps == 2).all()
    assert issued((code, execution), "LDG") == 2 * THREADS
    assert not execution.undecided


@pytest.mark.parametrize("n", [0, 1, 5, 100])
def test_loop_of_a_parameter(nvdisasm: str, n: int) -> None:
    body = """float s = 0.0f;
    #pragma unroll 1
    for (int k = 0; k < n; k++) s = __sinf(s + x[k]);
    o[threadIdx.x] = s;"""
    assert issued(run(body, nvdisasm, n=n), "MUFU") == n * THREADS


def test_loop_whose_end_depends_on_the_thread(nvdisasm: str) -> None:
    body = """float s = 0.0f;
    #pragma unroll 1
    for (int k = 0; k < threadIdx.x; k += 3) s = __sinf(s + x[k]);
    o[threadIdx.x] = s;"""
    found = run(body, nvdisasm)
    assert issued(found, "MUFU") == sum(-(-t // 3) for t in range(THREADS))
    code, execution = found
    (sine,) = (int(w) for i, w in zip(code.instructions, execution.warps, strict=True) if i.opcode == "MUFU")
    assert sine == 11 + 21  # of each warp as many as its longest thread


def test_nested_loops_with_wide_counters(nvdisasm: str) -> None:
    body = """float s = 0.0f;
    #pragma unroll 1
    for (long long i = 0; i < n; i++)
        #pragma unroll 1
        for (unsigned j = i; j < 9; j += 2) s = __sinf(s + x[i * 3000000000LL / 1000000000 + j]);
    o[threadIdx.x] = s;"""
    assert issued(run(body, nvdisasm), "MUFU") == THREADS * sum(len(range(i, 9, 2)) for i in range(7))


@pytest.mark.parametrize("block", [0, 1, 2])
def test_branch_on_the_block(nvdisasm: str, block: int) -> None:
    body = """const int t = threadIdx.x;
    if (blockIdx.x >= 1 && blockIdx.x <= 1) { o[t] = x[t]; __syncthreads(); o[t + 64] = __sinf(x[t + 1]); }
    else if (t < 5) o[t] = __cosf(x[2 * t]) + __sinf(x[3 * t]);"""
    assert issued(run(body, nvdisasm, block=block), "MUFU") == (THREADS if block == 1 else 5 * 2)


def test_branch_on_data_goes_past_the_slow_path(nvdisasm: str) -> None:
    code, execution = run("o[threadIdx.x] = x[threadIdx.x] / x[threadIdx.x + 1];", nvdisasm)
    assert sum(execution.undecided.values()) == THREADS
    calls = [int(n) for i, n in zip(code.instructions, execution.issued, strict=True) if i.opcode == "CALL"]
    assert calls == [0]


def test_division_of_indices(nvdisasm: str) -> None:
    """Quotients by constants are high words of products; loop bounds computed from them show whether they are right."""
    body = """const int t = threadIdx.x + blockIdx.x * 1000 - 1010;
    float s = 0.0f;
    #pragma unroll 1
    for (int k = 0; k < (t / 7) % 5 + t % 11 + 8; k++) s = __sinf(s + x[k]);
    o[threadIdx.x] = s;"""

    def trips(t: int) -> int:
        quotient, remainder = int(t / 7), int(np.fmod(t, 11))
        return max(int(np.fmod(quotient, 5)) + remainder + 8, 0)

    assert issued(run(body, nvdisasm), "MUFU") == sum(trips(t - 10) for t in range(THREADS))


def test_division_by_a_parameter(nvdisasm: str) -> None:
    """The condition depends on floating point, which is not executed, so it counts as undecided."""
    body = """#pragma unroll 1
    for (int k = 0; k < (int)threadIdx.x / n; k++) o[k] = __sinf(x[k]);"""
    _, execution = run(body, nvdisasm)
    assert execution.undecided


@pytest.mark.parametrize(("stride", "sectors"), [(1, 8), (2, 16), (8, 64), (100, 64)])
def test_sectors_of_strided_loads(nvdisasm: str, stride: int, sectors: int) -> None:
    _, execution = run(f"o[threadIdx.x] = x[threadIdx.x * {stride}];", nvdisasm)
    traffic = execution.memory["global"]
    assert traffic.requests == Counter(loads=2, stores=2)
    assert traffic.transactions == Counter(loads=sectors, stores=8)
    assert traffic.distinct("loads") == sectors


@pytest.mark.parametrize(("kind", "total", "sectors"), [("float2", "v.x + v.y", 16), ("float4", "v.x + v.w", 32)])
def test_sectors_of_vector_loads(nvdisasm: str, kind: str, total: str, sectors: int) -> None:
    body = f"const {kind} v = ((const {kind}*)x)[threadIdx.x]; o[threadIdx.x] = {total};"
    _, execution = run(body, nvdisasm)
    traffic = execution.memory["global"]
    assert traffic.requests["loads"] in (2, 4)  # the ends of four are two loads, if the compiler likes
    assert traffic.distinct("loads") == sectors


def test_bank_conflicts(nvdisasm: str) -> None:
    body = """__shared__ float s[64 * 33];
    s[threadIdx.x * 33] = x[threadIdx.x];
    __syncthreads();
    o[threadIdx.x] = s[threadIdx.x * 32 + 1] + s[threadIdx.x];"""
    _, execution = run(body, nvdisasm)
    shared = execution.memory["shared"]
    assert shared.transactions == Counter(stores=2, loads=64 + 2)
    assert shared.ideal == Counter(stores=2, loads=4)


def test_unknown_addresses_are_told(nvdisasm: str) -> None:
    _, execution = run("o[threadIdx.x] = x[m[threadIdx.x]];", nvdisasm)
    traffic = execution.memory["global"]
    assert traffic.unknown == Counter(loads=2) and traffic.requests == Counter(loads=2, stores=2)


def lowered(name: str) -> Program:
    """Return an app with every stage that is not inlined in a kernel of its own."""
    app = get_app(name)
    pipeline, params = app.configure({})
    arrays = app.make_inputs({"H": 203, "W": 517})
    bound = bind(pipeline, {n: a.shape for n, a in arrays.items()}, params)
    return lower(bound, STRATEGIES["roots"].search(bound, get_target("h200")).best)


def traced(kernel: KernelIR, block: tuple[int, int, int]) -> Any:
    """Return the emulator's trace of one block of a kernel on zeros."""
    printed = print_cuda(kernel)
    prelude = scalar_prelude(called_scalar_functions(printed.body))
    emulated = compile_emulated(
        printed.body, printed.name, [_spec(p) for p in printed.params], common_prelude=prelude, traced=True,
        site_depths=printed.site_depths,
    )  # fmt: skip
    values = [np.ones(p.count, p.dtype.numpy) if p.kind != "scalar" else p.dtype.numpy.type(1) for p in printed.params]
    return emulated.launch(printed.grid, printed.block, printed.shared_bytes, values, 0, blocks=[block])


@pytest.mark.parametrize("name", ["blur", "harris", "unsharp"])
def test_addresses_are_those_of_the_emulator(nvdisasm: str, name: str) -> None:
    """Stores are the same requests. The compiler may merge loads, which access the same sectors as in the emulator."""
    from sass.measure import block_at, interior_block, measure_kernel

    program = lowered(name)
    costs = costs_of_operations(nvdisasm)
    for kernel in program.kernels:
        counts = measure_kernel(kernel, {}, costs)
        position, _ = interior_block(kernel)
        trace = traced(kernel, block_at(position, [n for _, n in kernel.grid_loops], counts.launch.grid))
        traffic = counts.execution.memory["global"]
        stores, loads = (trace.is_store == flag for flag in (True, False))
        outside = np.array([s == "global" for s in trace.space])
        assert traffic.transactions["stores"] == trace.sectors[stores & outside].sum()
        assert traffic.requests["stores"] == trace.requests[stores & outside].sum()
        assert 0 < traffic.transactions["loads"] <= trace.sectors[loads & outside].sum()
        needed = counts.needed
        assert needed is not None
        assert needed.stores["global"] == trace.active_lanes[stores & outside].sum()
        assert 0 < needed.total <= counts.execution.issued.sum()


def test_necessary_instructions_of_blur(nvdisasm: str) -> None:
    """Counted by hand: three taps, a sum of three (one instruction) and a division by 3 (two), in both kernels."""
    from sass.measure import measure_kernel

    for kernel in lowered("blur").kernels:
        needed = measure_kernel(kernel, {}, costs_of_operations(nvdisasm)).needed
        assert needed is not None
        lanes = needed.stores["global"]
        assert needed.loads == {"global": 3 * lanes, "shared": 0}
        assert needed.operations == {"add": 2 * lanes, "floordiv": lanes}
        assert needed.arithmetic == 3 * lanes


def test_table_of_an_app(nvdisasm: str, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, SCRIPTS / "bench_instructions.py", "--apps", "blur", "--strategy", "roots"]
    done = subprocess.run([*command, "--profile", "--json", figures], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    _, header, *rows = done.stdout.splitlines()
    assert header.split()[:5] == ["kernel", "blocks", "threads", "instr/pt", "needed/pt"]
    total = next(r for r in rows if r.startswith("blur"))
    found = json.loads(figures.read_text())["blur"]
    issued = sum(k["instructions_per_block"] * math.prod(k["grid"]) for k in found["kernels"])
    assert f"{issued / found['points']:.2f}" in total.split()
    for k in found["kernels"]:
        assert sum(k["classes_per_block"].values()) == k["instructions_per_block"]
        assert 0 < k["necessary_per_block"]["total"] <= k["instructions_per_block"]
        assert 0 < k["distinct_sectors_per_block"] <= k["transactions_per_block"]
        assert k["registers"] > 0 and k["spill_bytes"] == 0


def staged_stencil() -> Program:
    """Return a stencil of floats with four points a thread, staged in shared memory, by vectors."""
    y, x = Var("y"), Var("x")
    image, wide, out = Input("image", float32, 2), Func("wide"), Func("out")
    wide[y, x] = image[y, x] + image[y, x + 1]
    out[y, x] = wide[y, x] + wide[y + 1, x]
    bound = bind(Pipeline(out.over(y=(0, 32), x=(0, 512)), name="stencil"), {"image": (33, 516)})
    tiles = building.kernel(
        bound,
        [building.root("out", "by=8 bx=4 tx=32 sx=4 ty=4")],
        [building.member(building.block("out", 2), ("y", "x"), wide="tx=32 sx=4 ty=5")],
    )
    return lower(bound, building.schedule(bound, tiles), vectors=True)


def test_vectors_are_single_instructions(nvdisasm: str) -> None:
    """The compiler emits one instruction per vector, and counts of the machine code equal those of the emulator."""
    from sass.measure import block_at, interior_block, measure_kernel

    (ir,) = staged_stencil().kernels
    counts = measure_kernel(ir, {}, costs_of_operations(nvdisasm))
    bytes_: dict[str, Counter[int]] = {}
    for i in counts.code.instructions:
        size = next((int(m) // 8 for m in i.modifiers if m in ("64", "128")), 4)
        bytes_.setdefault(i.opcode, Counter())[size] += 1
    assert bytes_["LDG"] == {16: 1, 4: 1} and bytes_["STS"] == {16: 1}
    assert bytes_["LDS"] == {16: 2} and bytes_["STG"] == {16: 1}
    position, _ = interior_block(ir)
    trace = traced(ir, block_at(position, [n for _, n in ir.grid_loops], counts.launch.grid))
    for space, stores in (("shared", True), ("shared", False), ("global", True), ("global", False)):
        traffic, here = counts.execution.memory[space], (trace.is_store == stores) & (np.array(trace.space) == space)
        what = "stores" if stores else "loads"
        assert traffic.requests[what] == trace.requests[here].sum()
        passes = trace.sectors if space == "global" else trace.wavefronts
        assert traffic.transactions[what] == passes[here].sum()
