"""Partition the steps of a sliding window over all blocks: the interior steps, where clamps and guards are constant."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from autosched.analysis.indices import index as ix
from autosched.lower.builder import CheckedIndex
from autosched.lower.global_step import GlobalStep
from autosched.lower.passes.partition_interior import interior_box


@dataclass(frozen=True, slots=True)
class StepPartition:
    """The interior steps of a kernel.

    Attributes:
        everywhere: The global step, restricted to the steps that are interior along the sliding window's dimension.
        inside: The same for the blocks of ``box``, which are interior in all other dimensions as well; None if there
            are none.
        box: Inclusive range of the other block loops, by name.
    """

    everywhere: GlobalStep
    inside: GlobalStep | None
    box: dict[str, tuple[int, int]]


def partition_steps(
    conditions: Collection[CheckedIndex], steps: GlobalStep, grid: Sequence[tuple[str, int]],
    rolling: Collection[int] = (),
) -> StepPartition | None:  # fmt: skip
    """Return the interior steps; None if conditions restrict no step, or all of them.

    Conditions are those of code by the global step. See `autosched.lower.passes.partition_interior.interior_box` for
    conditions that stay in the code. Positions in rolling buffers stay as well: they differ from step to step.

    Args:
        conditions: Conditions without a constant outcome in the whole grid.
        steps: The global step.
        grid: Block loops as (name, extent).
        rolling: Rows of the rolling buffers.
    """
    conditions = [c for c in conditions if not _is_position(c, steps, rolling)]
    block = None if steps.block is None else steps.block.name
    if any(block in ix.loop_vars(c.index) for c in conditions):
        return None  # of stages before the steps, or of a producer whose rows are not those of the steps
    count = steps.hi - steps.lo + 1
    from_zero = {steps.name: ix.add(ix.var(steps.name, 0, count - 1), steps.lo)}
    numbered = [replace(c, index=ix.substitute(c.index, from_zero)) for c in conditions]
    alone = interior_box(numbered, [(steps.name, count)])
    if alone is None or alone[steps.name] == (0, count - 1):
        return None
    others = [(name, n) for name, n in grid if name != block]
    box = interior_box(numbered, [(steps.name, count), *others])
    inside = None if box is None else _restricted(steps, box.pop(steps.name))
    return StepPartition(_restricted(steps, alone[steps.name]), inside, box or {})


def _is_position(c: CheckedIndex, steps: GlobalStep, rolling: Collection[int]) -> bool:
    """Whether a condition is that of a position in a rolling buffer."""
    is_remainder = c.kind == "quotient" and c.divisor in rolling
    return is_remainder and not {steps.name, steps.step.name}.isdisjoint(ix.loop_vars(c.index))


def _restricted(steps: GlobalStep, numbers: tuple[int, int]) -> GlobalStep:
    return steps.restricted(steps.lo + numbers[0], steps.lo + numbers[1])
