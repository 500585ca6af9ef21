"""Inlining before stages are grouped (section 4.1): first trivial Funcs, then greedily by cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundFunc
from autosched.schedule.policy import unrolls_reduction
from autosched.schedule.tilings import MAX_UNROLLED_LOADS, call_chain, inlined_calls, loop_sizes
from autosched.search.strategies.compute_root import inlined_funcs
from autosched.search.strategies.sioutas.deadline import Deadline
from autosched.search.strategies.sioutas.group_cost import GLOBAL_LOAD_COST, GroupPricer
from autosched.search.strategies.sioutas.partition import Roots, kernel_sources, root_kernel_stages

MOST_INLINED_LOADS = 400
"""Most loads of a stage after inlining; more make compilation slow."""


@dataclass
class Inliner:
    """Chooses the Funcs to inline into their consumers.

    Args:
        pricer: Prices kernels.
        deadline: End of the time budget.
        considered: Counts of considered candidates, by kind.
    """

    pricer: GroupPricer
    deadline: Deadline
    considered: Counter[str]
    _inlined: set[str] = field(init=False, default_factory=set)
    _kernels: dict[Roots, set[str]] = field(init=False, default_factory=dict)

    def run(self) -> frozenset[str]:
        """Return the Funcs to inline.

        Trivial Funcs are inlined first, by the rule of the baseline strategy (`inlined_funcs`). Then the Func whose
        inlining into all its consumers saves most is inlined, until none saves anything.
        """
        bound = self.pricer.bound
        self._inlined = inlined_funcs(bound)
        self._kernels = {
            roots: kernel_sources(bound, roots, self._inlined)
            for f in bound.funcs.values()
            if f.name not in self._inlined
            for roots in root_kernel_stages(f)
        }
        savings = {f.name: self._saving(f) for f in bound.funcs.values() if self._may_inline(f)}
        while savings and not self.deadline.passed():
            best = max(savings, key=savings.__getitem__)
            if savings[best] <= 0:
                break
            affected = self._inline(best)
            del savings[best]
            for name in savings:
                func = bound.funcs[name]
                if any(k in affected for k in (*self._readers(name), *root_kernel_stages(func))):
                    savings[name] = self._saving(func)
        return frozenset(self._inlined)

    def _may_inline(self, func: BoundFunc) -> bool:
        """Whether a Func can be inlined: updates, outputs and Funcs without a value or a reader cannot."""
        return (
            func.name not in self._inlined
            and func.is_pure
            and not func.is_output
            and not func.undefined
            and bool(func.consumers)
        )

    def _readers(self, name: str) -> list[Roots]:
        return [roots for roots, sources in self._kernels.items() if name in sources]

    def _saving(self, func: BoundFunc) -> float:
        """Return the reduction of the costs of a Func and all its readers if it is inlined.

        Minus infinity refuses a Func whose readers would have more than `MOST_INLINED_LOADS` loads in a stage, or more
        than `MAX_UNROLLED_LOADS` with their reductions unrolled, which no kernel may have.
        """
        self.considered["inline"] += 1
        readers = self._readers(func.name)
        inlined = self._inlined | {func.name}
        for roots in readers:
            if call_chain(self.pricer.bound, roots, inlined) > MOST_INLINED_LOADS:
                return -math.inf
            if self._unrolled_loads(roots, inlined) > MAX_UNROLLED_LOADS:
                return -math.inf
        return self._cost([*readers, *root_kernel_stages(func)], self._inlined) - self._cost(readers, inlined)

    def _unrolled_loads(self, roots: Roots, inlined: set[str]) -> int:
        loads = 0
        for id_ in roots:
            terms = math.prod(loop.extent for loop in self.pricer.bound.stage(*id_).reductions)
            loads += call_chain(self.pricer.bound, [id_], inlined) * (terms if unrolls_reduction(1, terms) else 1)
        return loads

    def _cost(self, kernels: Iterable[Roots], inlined: set[str]) -> float:
        """Return the sum of kernels' costs before tiling: operations and global loads, without occupancy.

        Section 4.1 has Halide's greedy algorithm, which inlines into tiles of one point (`evaluate_choice`).
        """
        return sum(self._cost_of(roots, inlined) for roots in kernels)

    def _cost_of(self, roots: Roots, inlined: set[str]) -> float:
        bound, func = self.pricer.bound, self.pricer.bound.funcs[roots[0].func]
        calls = frozenset(inlined_calls(bound, roots, inlined))
        cost = 0.0
        for id_ in roots:
            work = self.pricer.work.of(id_, None, calls)
            loads = sum(read.count for read in work.reads)
            evaluations = math.prod(loop_sizes(func, bound.stage(*id_), func.extents).values())
            cost += evaluations * (work.arithmetic + GLOBAL_LOAD_COST * loads)
        return cost

    def _inline(self, name: str) -> set[Roots]:
        """Inline a Func; return the affected kernels, its own included."""
        self._inlined.add(name)
        affected = {*self._readers(name), *root_kernel_stages(self.pricer.bound.funcs[name])}
        for roots in root_kernel_stages(self.pricer.bound.funcs[name]):
            del self._kernels[roots]
        for roots in affected & self._kernels.keys():
            self._kernels[roots] = kernel_sources(self.pricer.bound, roots, self._inlined)
        return affected
