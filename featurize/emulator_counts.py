"""Counts of the traced emulator, block by block, and the features that predict them, in one form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.identifiers import component_label
from autosched.analysis.indices import index as ix
from autosched.codegen.cuda import CudaKernel, print_cuda
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.featurize.featurizer import Evaluation, SketchFeaturizer
from autosched.featurize.regions.memory_kinds import REGISTER
from autosched.lower.builder import CheckedIndex
from autosched.lower.emit.kernel_body import emit_kernel_body
from autosched.lower.global_layout import global_arrays
from autosched.lower.ir_queries import boundary_sites
from autosched.lower.kernel_context import KernelContext
from autosched.lower.pipelines import CUDA_PASSES, run_passes
from autosched.lower.program import Program
from autosched.runtime.backends.cpu import scalar_arguments
from autosched.runtime.backends.emulator import _spec
from autosched.runtime.emulator import EmulatedKernel, compile_emulated
from autosched.runtime.emulator.trace import Trace
from autosched.runtime.host_memory import aligned_empty
from autosched.schedule.kernel.memory_layout import shared_layout
from autosched.schedule.planner import plan_kernel

Arrays = Mapping[str, np.ndarray[Any, Any]]
Block = tuple[int, int, int]
BufferCounts = dict[tuple[str, bool], dict[str, float]]
"""Counts by `QUANTITIES`, for each buffer and direction (True for stores)."""

QUANTITIES = ("requests", "bytes", "transactions")
TOTALS = ("global loads", "global stores", "shared loads", "shared stores")
MOST_LISTED = 5
"""Blocks of a loop up to which `sampled_blocks` lists all of them."""


@dataclass
class TracedProgram:
    """A lowered pipeline with kernels for the traced emulator.

    Attributes:
        program: The lowered pipeline.
        values: Arrays and scalars by their names in kernels.
        kernels: Each kernel as CUDA and compiled for the emulator.
    """

    program: Program
    values: dict[str, Any]
    kernels: list[tuple[CudaKernel, EmulatedKernel]]

    @classmethod
    def of(cls, program: Program, inputs: Arrays, scalars: Mapping[str, Any]) -> TracedProgram:
        """Compile the kernels and allocate outputs and workspace."""
        workspace = aligned_empty(program.workspace_bytes)
        workspace[:] = 0
        values: dict[str, Any] = {a.buffer.name: inputs[n] for n, a in program.inputs.items()}
        for a in program.outputs.values():
            values[a.buffer.name] = np.zeros(a.buffer.count, a.buffer.dtype.numpy)
        for slot in program.workspace:
            dtype = slot.buffer.dtype.numpy
            values[slot.buffer.name] = workspace[slot.offset :][: slot.buffer.count * dtype.itemsize].view(dtype)
        values |= {n: v[0] for n, v in scalar_arguments(program, dict(scalars)).items()}
        printed = [print_cuda(k) for k in program.kernels]
        return cls(program, values, [(p, _compiled(p)) for p in printed])

    def launch(self, position: int, blocks: Sequence[Block] | None) -> Trace:
        """Run some blocks of a kernel, all if None, and return their trace."""
        printed, kernel = self.kernels[position]
        arguments = [self.values[p.name] for p in printed.params]
        trace = kernel.launch(printed.grid, printed.block, printed.shared_bytes, arguments, 0, blocks=blocks)
        assert trace is not None  # compiled with a trace
        return trace


def _compiled(kernel: CudaKernel) -> EmulatedKernel:
    return compile_emulated(
        kernel.body,
        kernel.name,
        [_spec(p) for p in kernel.params],
        common_prelude=scalar_prelude(called_scalar_functions(kernel.body)),
        traced=True,
        site_depths=kernel.site_depths,
    )


def counted(trace: Trace) -> BufferCounts:
    """Return the counts of a trace by buffer and direction."""
    counts: BufferCounts = {}
    for k, buffer in enumerate(trace.buffer):
        if trace.space[k] not in ("global", "shared"):
            continue
        sums = counts.setdefault((buffer, bool(trace.is_store[k])), dict.fromkeys(QUANTITIES, 0.0))
        sums["requests"] += int(trace.requests[k])
        sums["bytes"] += int(trace.active_lanes[k] * trace.element_bytes[k])
        sums["transactions"] += int((trace.sectors if trace.space[k] == "global" else trace.wavefronts)[k])
    return counts


def predicted(model: SketchFeaturizer, evaluation: Evaluation, names: Mapping[str, str]) -> BufferCounts:
    """Return the counts that an evaluation of one candidate predicts.

    Each buffer also has its ``memory``, and ``exact``, 1 if all its addresses are exact, else 0.

    Args:
        model: The sketch.
        evaluation: Features of one candidate.
        names: Names of buffers in generated code.
    """
    bound = model.bound
    counts: BufferCounts = {}
    for access in itertools.chain(*evaluation.traffic.values()):
        group, cost = access.group, access.cost
        if access.memory == REGISTER:
            continue
        func = bound.funcs.get(group.source)
        label = names[group.source]
        if func is not None:
            label = component_label(names, group.source, len(func.dtypes), group.component)
        sums = counts.setdefault((label, access.store), {**dict.fromkeys(QUANTITIES, 0.0), "exact": 1.0})
        sums["requests"] += float(cost.requests[0])
        sums["bytes"] += float(cost.lanes[0]) * model.facts.itemsize(group)
        sums["transactions"] += float(cost.transactions[0])
        sums["memory"] = access.memory
        sums["exact"] *= bool(cost.exact[0])
    return counts


def names_in(bound: BoundPipeline, program: Program) -> dict[str, str]:
    """Return the names in generated code of all arrays of a pipeline, those of cache reads included."""
    return {**bound.identifiers, **program.names}


def block_at(position: Sequence[int], count: Sequence[int], grid: Sequence[int]) -> Block:
    """Return the launch index of a block from its position in the kernel's block loops, outermost first."""
    linear = 0
    for n, k in zip(count, position, strict=True):
        linear = linear * int(n) + int(k)
    return linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1])


def sampled_blocks(count: Sequence[int]) -> dict[int, list[tuple[int, ...]]]:
    """Return sampled blocks by weight, the number of blocks that each stands for.

    They are all combinations of the first two, the middle and the last two blocks of each loop.
    """
    choices: list[list[tuple[int, int]]] = []
    for n in count:
        every = [(1, k) for k in range(n)]
        choices.append(every if n <= MOST_LISTED else [(1, 0), (1, 1), (n - 4, n // 2), (1, n - 2), (1, n - 1)])
    blocks: dict[int, list[tuple[int, ...]]] = {}
    for combination in itertools.product(*choices):
        blocks.setdefault(math.prod(w for w, _ in combination), []).append(tuple(k for _, k in combination))
    return blocks


def is_boundary_block(traced: TracedProgram, position: int, at: Sequence[int], trace: Trace) -> bool:
    """Whether a block runs boundary code, or clamps and guards that are not constant in it.

    Args:
        traced: The lowered pipeline.
        position: Position of the kernel.
        at: Position of the block in the kernel's block loops.
        trace: Trace of the block.
    """
    program = traced.program
    bound, kernel = program.bound, program.schedule.kernels[position]
    materialised = program.schedule.materialised
    arrays = global_arrays(bound, program.names, [n for n in bound.funcs if n in materialised])
    plan = plan_kernel(bound, kernel)
    context = KernelContext(plan, arrays, names_in(plan.bound, program))
    emit_kernel_body(context, shared_layout(plan))
    outside = boundary_sites(run_passes(program.kernels[position], CUDA_PASSES).body)
    if trace.requests[sorted(outside)].any():
        return True
    here = {p.name: (int(k), int(k)) for p, k in zip(plan.grid, at, strict=True)}
    return any(_varies(c, here) for c in context.builder.conditions.values())


def _varies(condition: CheckedIndex, block: Mapping[str, tuple[int, int]]) -> bool:
    """Whether a condition is not constant over the threads of a block."""
    lo, hi = ix.bounds(condition.index, block)
    match condition.kind:
        case "sign":
            return bool(lo < 0 < hi)
        case "nonnegative":
            return bool(lo < 0)
        case "split":
            return bool(lo < 0 <= hi)
        case "nonzero":
            return bool(lo <= 0 <= hi and not lo == hi == 0)
        case _:
            return bool(lo // condition.divisor != hi // condition.divisor)


def totals(trace: Trace) -> dict[str, float]:
    """Return a trace's transactions by `TOTALS`: memory and direction."""
    return {
        "global loads": trace.global_load_sectors,
        "global stores": trace.global_store_sectors,
        "shared loads": trace.shared_load_wavefronts,
        "shared stores": trace.shared_store_wavefronts,
    }
