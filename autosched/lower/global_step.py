"""Global steps of a sliding window: a step's number among those of all blocks along the dimension.

Rows that a block accesses in a step depend on block and step. By the global step, conditions on rows are conditions on
one variable, whose range can be restricted:

    row = 16 * z_block + z_step + 1     with z_block in [0, 31] and z_step in [0, 15]
    row = z_global + 1                  with z_global = 16 * z_block + z_step in [0, 511]

Positions in rolling buffers depend on the step alone, as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autosched.analysis.indices import index as ix
from autosched.schedule.plan import KernelPlan, Nest, NestLoop


@dataclass(frozen=True, slots=True)
class GlobalStep:
    """The variable that numbers the steps of all blocks along the dimension of a sliding window.

    Attributes:
        name: Its name; that of the step where one block has all steps.
        step: The loop of the steps in a block.
        block: The loop over blocks along the dimension; None where one block has all steps.
        prologue_steps: Number of prologue steps of a block.
        lo: Its first value.
        hi: Its last value.
    """

    name: str
    step: NestLoop
    block: NestLoop | None
    prologue_steps: int
    lo: int
    hi: int

    @classmethod
    def of(cls, plan: KernelPlan, name: str) -> GlobalStep | None:
        """Return the global step of a plan with a sliding window; None if blocks do not divide into its steps.

        Args:
            plan: The plan.
            name: Name of the variable.
        """
        host = plan.mainloop_nest
        assert host is not None
        step = host.mainloops[0]
        blocks = [p for p in plan.grid if p.dim == step.dim and p.extent > 1]
        if len(blocks) > 1 or any(p.stride != step.stride * step.extent for p in blocks):
            return None
        block, prologue = (blocks[0] if blocks else None), plan.prologue_steps
        count = step.extent * (block.extent if block is not None else 1)
        return cls(name if block is not None else step.name, step, block, prologue, -prologue, count - 1)

    def restricted(self, lo: int, hi: int) -> GlobalStep:
        """Return the variable with a smaller inclusive range."""
        return replace(self, lo=lo, hi=hi)

    def value(self, step: ix.Index) -> ix.Index:
        """Return the variable's value in a step of a block."""
        if self.block is None:
            return step
        block = ix.var(self.block.name, 0, self.block.extent - 1)
        return ix.add(ix.scale(block, self.step.extent), step)  # type: ignore[no-any-return]

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the inclusive range of the variable's values in the steps ``first`` to ``last`` of all blocks."""
        blocks = 0 if self.block is None else self.block.extent - 1
        return first, last + blocks * self.step.extent

    def substitution(self, first: int, last: int) -> StepSubstitution:
        """Return the substitution in the steps ``first`` to ``last`` of all blocks that are in the range."""
        lo, hi = self.span(first, last)
        return StepSubstitution(self, (max(lo, self.lo), min(hi, self.hi)), (first, last))


@dataclass(frozen=True, slots=True)
class StepSubstitution:
    """Substitutes the global step for the block, or for the step where one block has all steps.

    Attributes:
        variable: The global step.
        values: Inclusive range of its values.
        steps: Inclusive range of the step in a block.
    """

    variable: GlobalStep
    values: tuple[int, int]
    steps: tuple[int, int]

    def of(self, e: ix.Index) -> ix.Index:
        """Return an equal index."""
        if not isinstance(e, ix.Affine):
            return e
        done: dict[str, ix.Index] = {}

        def total(a: ix.Index) -> ix.Index:
            if not isinstance(a, ix.Affine):
                return a
            parts = ((done[t.key], c) if isinstance(t, ix.Atom) else self._of_variable(t, c) for t, c in a.terms)
            result: ix.Index = ix.weighted_sum(a.const, list(parts))
            return result

        for atom in ix.postorder(e):
            done[atom.key] = ix.rebuilt(atom, [total(a) for a in atom.args])
        return total(e)

    def of_box(self, box: Mapping[str, ix.Index]) -> dict[str, ix.Index]:
        """Return equal indices by dimension."""
        return {dim: self.of(e) for dim, e in box.items()}

    def _of_variable(self, v: ix.LoopVar, factor: int) -> tuple[ix.Index, int]:
        """Return an index and a factor whose product is ``factor`` times a loop variable."""
        block, step = self.variable.block, self.variable.step
        if v.name == step.name:
            return (self._step if block is not None else self._global), factor
        if block is not None and v.name == block.name and factor % step.extent == 0:
            return ix.sub(self._global, self._step), factor // step.extent
        return ix.Affine(((v, 1),), 0), factor

    @property
    def _global(self) -> ix.Index:
        return ix.var(self.variable.name, *self.values)

    @property
    def _step(self) -> ix.Index:
        return ix.var(self.variable.step.name, *self.steps)


def plan_by_global_step(plan: KernelPlan, by: StepSubstitution) -> KernelPlan:
    """Return a plan whose repeated nests are those of one step, by the global step; other nests are unchanged."""
    steps = list(plan.steps)
    for k in plan.repeated:
        steps[k] = tuple(_in_step(n, by) if n is plan.mainloop_nest else _by_global_step(n, by) for n in steps[k])
    thread_nests = tuple(tuple(_by_global_step(n, by) for n in group) for group in plan.thread_nests)
    allocations = {name: replace(a, base=by.of_box(a.base)) for name, a in plan.allocations.items()}
    windows = {name: replace(w, entering=by.of(w.entering)) for name, w in plan.register_windows.items()}
    return replace(
        plan, steps=tuple(steps), thread_nests=thread_nests, allocations=allocations, register_windows=windows
    )


def _by_global_step(n: Nest, by: StepSubstitution) -> Nest:
    if n.first_step > by.steps[0]:
        by = replace(by, steps=(min(n.first_step, by.steps[1]), by.steps[1]))
    return replace(n, low=by.of_box(n.low), high=by.of_box(n.high), lower_bound=by.of_box(n.lower_bound))


def _in_step(host: Nest, by: StepSubstitution) -> Nest:
    """Return the nest of one step of the root; its loop over steps has one iteration."""
    step = by.variable.step
    dim, rows = step.dim, step.stride
    low = ix.add(host.low[dim], step.index())
    high = ix.minimum(ix.add(low, rows - 1), host.high[dim])
    loops = tuple(replace(p, extent=1) if p == step else p for p in host.loops)
    extents = {**host.extents, dim: rows}
    moved = replace(host, low={**host.low, dim: low}, high={**host.high, dim: high}, loops=loops, extents=extents)
    return _by_global_step(moved, by)
