"""Kernels in the traced emulator, block by block, and the features that predict its counts, in one form."""

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
from autosched.lower.ir import If
from autosched.lower.kernel_context import KernelContext
from autosched.lower.program import Program
from autosched.runtime.backends.cpu import aligned_empty, scalar_arguments
from autosched.runtime.backends.emulator import _spec
from autosched.runtime.emulator import EmulatedKernel, compile_emulated
from autosched.schedule.kernel.memory_layout import shared_layout
from autosched.schedule.planner import plan_kernel

Arrays = dict[str, np.ndarray[Any, Any]]
Block = tuple[int, int, int]
QUANTITIES = ("requests", "bytes", "transactions")
TOTALS = ("global loads", "global stores", "shared loads", "shared stores")


@dataclass
class Traced:
    """A lowered pipeline whose kernels run in the emulator, traced.

    Args:
        program: The lowered pipeline.
        values: Arrays and scalars by the names they have in kernels.
    """

    program: Program
    values: dict[str, Any]
    kernels: list[tuple[CudaKernel, EmulatedKernel]]

    @classmethod
    def of(cls, program: Program, inputs: Arrays, scalars: Mapping[str, Any]) -> Traced:
        """Compile the kernels."""
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

    def launch(self, position: int, blocks: Sequence[Block] | None) -> Any:
        """Run blocks of a kernel, all if None, and return the trace."""
        printed, kernel = self.kernels[position]
        arguments = [self.values[p.name] for p in printed.params]
        return kernel.launch(printed.grid, printed.block, printed.shared_bytes, arguments, 0, blocks=blocks)


def _compiled(kernel: CudaKernel) -> EmulatedKernel:
    return compile_emulated(
        kernel.body,
        kernel.name,
        [_spec(p) for p in kernel.params],
        common_prelude=scalar_prelude(called_scalar_functions(kernel.body)),
        traced=True,
        site_depths=kernel.site_depths,
    )


def counted(trace: Any) -> dict[tuple[str, bool], dict[str, float]]:
    """Return what a trace counted, by buffer and whether it was stored to."""
    found: dict[tuple[str, bool], dict[str, float]] = {}
    for k, buffer in enumerate(trace.buffer):
        if trace.space[k] not in ("global", "shared"):
            continue
        into = found.setdefault((buffer, bool(trace.is_store[k])), dict.fromkeys(QUANTITIES, 0.0))
        into["requests"] += int(trace.requests[k])
        into["bytes"] += int(trace.active_lanes[k] * trace.element_bytes[k])
        into["transactions"] += int((trace.sectors if trace.space[k] == "global" else trace.wavefronts)[k])
    return found


def predicted(
    model: SketchFeaturizer, found: Evaluation, names: Mapping[str, str]
) -> dict[tuple[str, bool], dict[str, float]]:
    """Return the same of the one candidate of an evaluation, with whether the accesses are ``exact``."""
    bound = model.bound
    sums: dict[tuple[str, bool], dict[str, float]] = {}
    for access in itertools.chain(*found.traffic.values()):
        group, cost = access.group, access.cost
        if access.memory == REGISTER:
            continue
        func = bound.funcs.get(group.source)
        label = names[group.source]
        if func is not None:
            label = component_label(names, group.source, len(func.dtypes), group.component)
        into = sums.setdefault((label, access.store), {**dict.fromkeys(QUANTITIES, 0.0), "exact": 1.0})
        into["requests"] += float(cost.requests[0])
        into["bytes"] += float(cost.lanes[0]) * model.facts.itemsize(group)
        into["transactions"] += float(cost.transactions[0])
        into["memory"] = access.memory
        into["exact"] *= bool(cost.exact[0])
    return sums


def names_in(bound: BoundPipeline, program: Program) -> dict[str, str]:
    """Return the names in generated code of everything in a pipeline that may have copies of sources."""
    return {**bound.identifiers, **program.names}


def block_at(position: Sequence[int], count: Sequence[int], grid: Sequence[int]) -> Block:
    """Return the launch index of a block from its position in the kernel's block loops, outermost first."""
    linear = 0
    for n, k in zip(count, position, strict=True):
        linear = linear * int(n) + int(k)
    return linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1])


def sampled_blocks(count: Sequence[int]) -> dict[int, list[tuple[int, ...]]]:
    """Return blocks by how many blocks each stands for.

    They are the first two, the middle and the last two of every loop, all combinations.
    """
    choices: list[list[tuple[int, int]]] = []
    for n in count:
        few = [(1, k) for k in range(n)]
        choices.append(few if n <= 5 else [(1, 0), (1, 1), (n - 4, n // 2), (1, n - 2), (1, n - 1)])
    found: dict[int, list[tuple[int, ...]]] = {}
    for combination in itertools.product(*choices):
        found.setdefault(math.prod(w for w, _ in combination), []).append(tuple(k for _, k in combination))
    return found


def is_border(traced: Traced, position: int, at: Sequence[int], trace: Any) -> bool:
    """Whether a block runs clamps or guards that other blocks do not need: nothing is said of it but its size."""
    program = traced.program
    bound, kernel = program.bound, program.schedule.kernels[position]
    stored = program.schedule.materialised
    arrays = global_arrays(bound, program.names, [n for n in bound.funcs if n in stored])
    plan = plan_kernel(bound, kernel)
    context = KernelContext(plan, arrays, names_in(plan.bound, program))
    emit_kernel_body(context, shared_layout(plan))
    split = any(isinstance(s, If) and s.uniform for s in program.kernels[position].body)
    if split and trace.requests[: len(context.builder.site_depths)].any():  # these stand outside the interior
        return True
    here = {p.name: (int(k), int(k)) for p, k in zip(plan.grid, at, strict=True)}
    return any(undecided(c, here) for c in context.builder.conditions.values())


def undecided(condition: CheckedIndex, block: Mapping[str, tuple[int, int]]) -> bool:
    """Whether the threads of a block do not all answer a condition in the same way."""
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


def totals(trace: Any) -> dict[str, float]:
    """Return a trace's transactions by memory and direction."""
    return {
        "global loads": trace.global_load_sectors,
        "global stores": trace.global_store_sectors,
        "shared loads": trace.shared_load_wavefronts,
        "shared stores": trace.shared_store_wavefronts,
    }
