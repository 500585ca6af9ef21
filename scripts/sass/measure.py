"""Counts of one kernel, from its machine code and, for our kernels, from its IR."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.analysis.indices import index as ix
from autosched.codegen.cuda import print_cuda
from autosched.lower.ir import CompareIndex, If, KernelIR, walk_values
from autosched.lower.program import Program
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.runtime.compile.ptxas_log import KernelResources
from sass.classes import classes_of
from sass.competitors import PeerKernel
from sass.costs import OperationCosts
from sass.disassembly import disassemble
from sass.instructions import Code
from sass.launches import Argument, PointerArgument, ScalarArgument, launch_of
from sass.lower_bound import LowerBound, lower_bound
from sass.machine import Execution, Launch, run_block


@dataclass(frozen=True)
class KernelCounts:
    """Counts of one block of a kernel: in the middle of its interior, or else of its grid.

    Attributes:
        name: The kernel.
        launch: Its launch configuration.
        resources: Its resources by ptxas.
        shared_bytes: Dynamic shared memory of a block.
        code: Its machine code.
        execution: Counts of the block.
        needed: Lower bound for the block; None for a kernel without IR.
        classes: Instructions of the block by class.
        interior_share: Share of blocks without clamps and guards; 1 if all blocks run the same code.
        border_issued: Instructions of the threads of a block next to the interior.
    """

    name: str
    launch: Launch
    resources: KernelResources
    shared_bytes: int
    code: Code
    execution: Execution
    needed: LowerBound | None = None
    classes: Mapping[str, int] = field(default_factory=dict)
    interior_share: float = 1.0
    border_issued: int = 0

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.launch.grid)

    @property
    def issued(self) -> int:
        """Instructions of all threads, if all blocks equal this one."""
        return int(self.execution.issued.sum()) * self.blocks

    @property
    def issued_with_border(self) -> int:
        """Instructions of all threads, if boundary blocks equal the one next to the interior."""
        inside = self.interior_share * int(self.execution.issued.sum())
        return round((inside + (1 - self.interior_share) * self.border_issued) * self.blocks)

    @property
    def slots(self) -> int:
        """Lanes of all issued warp instructions, including idle lanes."""
        return int(self.execution.warps.sum()) * 32 * self.blocks

    @property
    def necessary(self) -> int:
        """Lower bound of the instructions of all threads."""
        return 0 if self.needed is None else self.needed.total * self.blocks

    def sectors(self) -> tuple[int, int]:
        """Return global memory transactions and distinct sectors of one block."""
        traffic = self.execution.memory["global"]
        return sum(traffic.transactions.values()), sum(len(s) for s in traffic.touched.values())

    def bank_conflicts(self) -> int:
        """Return the additional wavefronts of shared memory due to bank conflicts, of one block."""
        traffic = self.execution.memory["shared"]
        return sum(traffic.transactions.values()) - sum(traffic.ideal.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        transactions, distinct = self.sectors()
        memory = self.execution.memory["global"]
        found: dict[str, Any] = {
            "kernel": self.name, "grid": self.launch.grid, "block": self.launch.block,
            "interior_share": self.interior_share, "border_instructions_per_block": self.border_issued,
            "instructions_per_block": int(self.execution.issued.sum()),
            "warp_instructions_per_block": int(self.execution.warps.sum()),
            "undecided_branches": sum(self.execution.undecided.values()),
            "transactions_per_block": transactions, "distinct_sectors_per_block": distinct,
            "requests_at_unknown_addresses": sum(memory.unknown.values()),
            "bank_conflicts_per_block": self.bank_conflicts(), "registers": self.resources.registers,
            "spill_bytes": self.resources.spill_bytes,
            "stack_bytes": self.resources.stack_bytes, "shared_bytes": self.shared_bytes,
            "classes_per_block": dict(self.classes),
        }  # fmt: skip
        if self.needed is not None:
            needed = {
                "total": self.needed.total, "arithmetic": self.needed.arithmetic, "loads": dict(self.needed.loads),
                "stores": dict(self.needed.stores), "operations": dict(self.needed.operations),
            }  # fmt: skip
            found["necessary_per_block"] = needed
        return found


def measure_program(program: Program, scalars: Mapping[str, Any], costs: OperationCosts) -> list[KernelCounts]:
    """Return the counts of a lowered pipeline's kernels.

    Args:
        program: The pipeline.
        scalars: Values of run-time parameters, by their names in kernels.
        costs: Costs of operations; defines the target architecture.
    """
    return [measure_kernel(k, scalars, costs) for k in program.kernels]


def measure_kernel(
    kernel: KernelIR, scalars: Mapping[str, Any], costs: OperationCosts, *, bounded: bool = True
) -> KernelCounts:
    """Return the counts of a kernel's interior.

    Args:
        kernel: The kernel.
        scalars: Values of run-time parameters, by their names in kernels.
        costs: Costs of operations; defines the target architecture.
        bounded: Whether to compute the lower bound, which the IR gives.
    """
    printed = print_cuda(kernel)
    cubin = compile_cubin(printed.source, costs.arch, name=printed.name)
    code = disassemble(cubin.code, costs.nvdisasm)[printed.name]
    arguments: list[Argument] = [
        ScalarArgument(scalars[p.name]) if p.kind == "scalar" else PointerArgument() for p in printed.params
    ]
    launch = launch_of(printed.grid, printed.block, arguments, costs.arch)
    position, share = interior_block(kernel)
    execution = run_block(code, launch, block_of_tile(kernel, position, printed.grid))
    outside = border_block(kernel)
    border = execution if outside is None else run_block(code, launch, block_of_tile(kernel, outside, printed.grid))
    return KernelCounts(
        printed.name, launch, cubin.kernels[printed.name], printed.shared_bytes, code, execution,
        lower_bound(kernel, position, costs) if bounded else None, classes_of(code, execution), share,
        int(border.issued.sum()),
    )  # fmt: skip


def interior_block(kernel: KernelIR) -> tuple[list[int], float]:
    """Return the middle one of the blocks without clamps and guards, and their share of all blocks.

    For a kernel with one body for all blocks, it is the middle block of the grid.
    """
    box = _interior(kernel)
    inside = math.prod(hi - lo + 1 for lo, hi in box)
    return [(lo + hi + 1) // 2 for lo, hi in box], inside / kernel.blocks


def border_block(kernel: KernelIR) -> list[int] | None:
    """Return the block next to the interior along the loop with the most boundary blocks; None without such blocks."""
    box = _interior(kernel)
    outside = [1 - (hi - lo + 1) / n for (lo, hi), (_, n) in zip(box, kernel.grid_loops, strict=True)]
    if not any(outside):
        return None
    k = outside.index(max(outside))
    position, _ = interior_block(kernel)
    lo, hi = box[k]
    position[k] = hi + 1 if hi + 1 < kernel.grid_loops[k][1] else lo - 1
    return position


def _interior(kernel: KernelIR) -> list[tuple[int, int]]:
    """Return the first and last interior block of each block loop."""
    box = {name: (0, n - 1) for name, n in kernel.grid_loops}
    if kernel.body and isinstance(kernel.body[0], If) and kernel.body[0].uniform:
        for test in walk_values(kernel.body[0].condition):
            if isinstance(test, CompareIndex):
                (name,) = ix.loop_vars(test.a)
                lo, hi = box[name]
                box[name] = (int(test.b), hi) if test.op == "ge" else (lo, int(test.b))
    return list(box.values())


def block_at(position: Sequence[int], count: Sequence[int], grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the launch index of a block from its position in the kernel's block loops, outermost first."""
    linear = 0
    for n, k in zip(count, position, strict=True):
        linear = linear * n + k
    return linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1])


def block_loops(kernel: KernelIR) -> list[int]:
    """Return the blocks along each loop of a kernel's grid, outermost first."""
    warps = kernel.warps or (1,) * len(kernel.grid_loops)
    return [-(-n // w) for (_, n), w in zip(kernel.grid_loops, warps, strict=True)]


def block_of_tile(kernel: KernelIR, tile: Sequence[int], grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the launch index of the block of a tile: the block itself, unless each warp of it has a tile."""
    warps = kernel.warps or (1,) * len(kernel.grid_loops)
    return block_at([at // w for at, w in zip(tile, warps, strict=True)], block_loops(kernel), grid)


def measure_peer(kernel: PeerKernel, nvdisasm: str) -> KernelCounts:
    """Return the counts of the middle block of a peer's kernel."""
    code = disassemble(kernel.cubin, nvdisasm)[kernel.name]
    x, y, z = (n // 2 for n in kernel.launch.grid)
    execution = run_block(code, kernel.launch, (x, y, z))
    return KernelCounts(
        kernel.name, kernel.launch, kernel.resources, kernel.shared_bytes, code, execution, None,
        classes_of(code, execution),
    )  # fmt: skip
