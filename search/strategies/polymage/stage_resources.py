"""Registers and time per iteration of each Func alone, before fusion (section 6, second paragraph).

Each Func is compiled in a kernel of its own for its registers. Its time is that of one thread of the simulated device:
the longest chain of dependent instructions of a point, with shared memory in place of global memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import CompileError
from autosched.schedule.types import LoopKind, Schedule
from autosched.search.strategies.compute_root import root_kernels
from autosched.target import Target

ASSUMED_REGISTERS = 32
"""Registers of a thread where no compiler reports them."""
SHARED_CYCLES = 30
"""Latency of a load from shared memory."""


@dataclass(frozen=True)
class StageResources:
    """Resources of each Func in a kernel of its own.

    Attributes:
        registers: Registers of a thread.
        seconds: Seconds of one iteration of one thread.
        problem: Why registers are assumed, or empty.
    """

    registers: Mapping[str, int]
    seconds: Mapping[str, float]
    problem: str = ""


def measure_stages(bound: BoundPipeline, target: Target, inlined: frozenset[str]) -> StageResources:
    """Return the resources of each Func that is not inlined, in the kernels of the baseline.

    Args:
        bound: The pipeline.
        target: The GPU.
        inlined: Funcs that are inlined into their readers.
    """
    # The simulated device and code generation take a second to import, and most strategies need neither.
    from autosched.codegen.cuda import print_cuda
    from autosched.lower.program import lower
    from autosched.measure.simulated.chain import phase_chains
    from autosched.measure.simulated.device import Device
    from autosched.measure.simulated.sampling import block_branch
    from autosched.measure.simulated.simulate import compiled_resources

    kernels = [
        k for f in bound.funcs.values() if f.name not in inlined for k in root_kernels(bound, f, target, set(inlined))
    ]
    program = lower(bound, Schedule.for_pipeline(bound, kernels))
    problem = ""
    try:
        registers = [r.registers for r in compiled_resources([print_cuda(k) for k in program.kernels], target.arch)]
    except CompileError as error:
        problem = f"registers of a stage are assumed to be {ASSUMED_REGISTERS}: {str(error).splitlines()[0]}"
        registers = [ASSUMED_REGISTERS] * len(kernels)
    clock = Device.of(target).clock_hz
    by_func: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for kernel, ir, count in zip(kernels, program.kernels, registers, strict=True):
        body = ir.body
        while (split := block_branch(body)) is not None:
            body = split.then
        chains = phase_chains(body)
        cycles = sum(c["chain_cycles"] + SHARED_CYCLES * (c["chain_global"] + c["chain_shared"]) for c in chains)
        name, tiling = kernel.roots[0].tiling.stage.func, kernel.roots[0].tiling
        points = 1
        for loop in tiling.of_kind(LoopKind.SERIAL):
            points *= loop.extent
        by_func[name] = max(by_func.get(name, 0), count)
        seconds[name] = seconds.get(name, 0.0) + cycles / clock / points
    return StageResources(by_func, seconds, problem)
