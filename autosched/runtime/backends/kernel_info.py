"""Launch configuration and compiled resources of one kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel's launch configuration and compiled resources.

    Attributes:
        name: Its name. Kernels that are equal up to names share the code of the first of them.
        grid: Blocks in x, y, z.
        block: Threads per block in x, y, z.
        shared_bytes: Shared memory per block.
        registers: 32-bit registers per thread; None unless compiled for CUDA, as are the next two.
        stack_bytes: Local memory per thread.
        spill_bytes: Register bytes that a thread spills to local memory.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    registers: int | None = None
    stack_bytes: int | None = None
    spill_bytes: int | None = None

    def __repr__(self) -> str:
        registers = "" if self.registers is None else f", {self.registers} registers"
        spills = f", {self.spill_bytes} B spilled" if self.spill_bytes else ""
        grid, block = "x".join(map(str, self.grid)), "x".join(map(str, self.block))
        return f"<KernelInfo {self.name}: grid {grid}, block {block}, {self.shared_bytes} B shared{registers}{spills}>"
