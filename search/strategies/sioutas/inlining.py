"""Inlining before stages are grouped (section 4.1): first trivial Funcs, then greedily by cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundFunc
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.tilings import call_chain, inlined_calls
from autosched.schedule.types import StageId
from autosched.search.strategies.compute_root import inlined_funcs
from autosched.search.strategies.sioutas.deadline import Deadline
from autosched.search.strategies.sioutas.group_cost import GroupPricer
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
        """Return the reduction of the costs of a Func and all its readers if it is inlined."""
        self.considered["inline"] += 1
        readers = self._readers(func.name)
        inlined = self._inlined | {func.name}
        for roots in readers:
            if call_chain(self.pricer.bound, roots, inlined) > MOST_INLINED_LOADS:
                return -math.inf
        before = self._cost([*readers, *root_kernel_stages(func)], self._inlined)
        after = self._cost(readers, inlined)
        return before - after if math.isfinite(before) and math.isfinite(after) else -math.inf

    def _cost(self, kernels: Iterable[Roots], inlined: set[str]) -> float:
        return sum(self.pricer.price(self._sketch(roots, inlined)).cost for roots in kernels)

    def _sketch(self, roots: tuple[StageId, ...], inlined: set[str]) -> KernelSketch:
        return KernelSketch(roots, (), frozenset(inlined_calls(self.pricer.bound, roots, inlined)))

    def _inline(self, name: str) -> set[Roots]:
        """Inline a Func; return the affected kernels, its own included."""
        self._inlined.add(name)
        affected = {*self._readers(name), *root_kernel_stages(self.pricer.bound.funcs[name])}
        for roots in root_kernel_stages(self.pricer.bound.funcs[name]):
            del self._kernels[roots]
        for roots in affected & self._kernels.keys():
            self._kernels[roots] = kernel_sources(self.pricer.bound, roots, self._inlined)
        return affected
