"""Rules on the resident blocks that a kernel asks for."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.schedule.kernel.register_limit import most_resident_blocks
from autosched.schedule.plan import KernelPlan
from autosched.target import Target


def resident_blocks_fit(plan: KernelPlan, target: Target) -> Iterator[str]:
    """A multiprocessor can have the threads of all resident blocks; CPUs ignore them."""
    threads = plan.block_threads
    asked = plan.kernel.resident_blocks
    if asked < 0:
        yield f"resident_blocks is {asked}; it must be 0 or a number of blocks"
    if target.kind != "cuda" or asked <= 1:
        return
    most = most_resident_blocks(target, threads)
    if asked > most:
        yield (
            f"resident_blocks is {asked}, but a multiprocessor of {target.name} has at most {most} blocks of "
            f"{threads} threads; use fewer"
        )
