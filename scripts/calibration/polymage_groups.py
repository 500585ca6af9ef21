"""Kernels of random groups of a program with their terms of PolyMage-GPU's cost, and their times."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from benchmarks.kernel_times import simulate_kernel

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import AutoschedError
from autosched.schedule.types import Kernel, Schedule
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.fusion.group_graph import FusedGroup, GroupGraph
from autosched.search.fusion.partition_search import PartitionSearch
from autosched.search.settings import PAPER
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.polymage.group_terms import group_terms
from autosched.search.strategies.polymage.group_tiles import group_tiles
from autosched.search.strategies.polymage.polymage_strategy import pointwise_inlined
from autosched.search.strategies.polymage.priced_groups import PolymageGroups, TiledKernel
from autosched.search.strategies.polymage.settings import PolymageSettings
from autosched.search.strategies.polymage.stage_resources import measure_stages
from autosched.target import Target

SIZES = (32, 128)
"""Bytes of a transaction."""
MOST_POINTS = 16
"""Points of a lane: more of them in registers take ten seconds to compile and count."""


@dataclass(frozen=True)
class GroupSample:
    """A kernel of a group.

    Attributes:
        program: The program.
        group: The root and the members.
        tile: Tile sizes, warps of a block and the share in registers, as text.
        terms: Terms of the cost by size of a transaction, in the order of `CostWeights`.
        seconds: Seconds for each point of the root.
        points: Points of the root that a thread computes.
    """

    program: str
    group: tuple[str, ...]
    tile: str
    terms: tuple[tuple[float, ...], ...]
    seconds: float
    points: float


class GroupSampler:
    """Draws kernels of groups of one pipeline.

    Args:
        program: The name of the program.
        bound: The pipeline.
        target: The GPU.
        rng: Source of randomness.
        takes_small: Whether groups are drawn whose roots do not fill the device.
    """

    def __init__(
        self, program: str, bound: BoundPipeline, target: Target, rng: np.random.Generator, takes_small: bool = False
    ) -> None:  # fmt: skip
        self.program, self.target, self.rng, self.takes_small = program, target, rng, takes_small
        evaluator = KernelEvaluator(bound, target, analytical_model(target), PAPER)
        enumerator = OptionEnumerator(evaluator)
        inlined = enumerator.compute_locations.inlined_before | pointwise_inlined(bound)
        self.evaluator = evaluator
        self.settings = PolymageSettings(most_points=MOST_POINTS)
        self.resources = measure_stages(bound.rewritten, target, inlined)
        self.prices = PolymageGroups(enumerator, self.resources, self.settings, lambda: False)
        self.graph = GroupGraph(evaluator.bound, inlined)
        search = PartitionSearch(self.prices, self.settings.most_funcs, float("inf"), 1)
        search.partitions(self.graph)
        self.groups = [g for g in self.prices.groups() if self._is_sampled(g)]

    def samples(self, groups: int, tiles: int, seconds: float) -> Iterator[GroupSample]:
        """Yield kernels with their times until a time is over.

        Args:
            groups: Groups to draw, two thirds of them with members.
            tiles: Kernels of each, the cheapest by Table 3 and random ones.
            seconds: Seconds after which no kernel is begun.
        """
        until = time.perf_counter() + seconds
        fused = [g for g in self.groups if g.members]
        alone = [g for g in self.groups if not g.members]
        drawn = [*self._some(fused, -(-2 * groups // 3)), *self._some(alone, groups // 3)]
        for tile in range(tiles):
            for group in drawn:
                if time.perf_counter() > until:
                    return
                sample = self._sample(group, is_cheapest=tile == 0)
                if sample is not None:
                    yield sample

    def _is_sampled(self, group: FusedGroup) -> bool:
        """Whether a group has one kernel, with as many points as threads fill the device: the cost has no launches."""
        points = prod(self.evaluator.bound.funcs[group.root].extents)
        fills = self.target.multiprocessors * self.target.max_threads_per_sm
        return len(self.prices.priced(group)[0][1]) == 1 and (points >= fills or self.takes_small)

    def _some(self, groups: Sequence[FusedGroup], count: int) -> list[FusedGroup]:
        numbers = self.rng.permutation(len(groups))[:count]
        return [groups[k] for k in numbers]

    def _sample(self, group: FusedGroup, is_cheapest: bool) -> GroupSample | None:
        """Return a random legal kernel of a group, or its cheapest one; None if a few are not legal."""
        for attempt in range(8):
            cheapest = self.prices.priced(group)[0][1][0]
            tiled = cheapest if is_cheapest and attempt == 0 else self._random(group)
            row = np.array([tiled.piece.params], np.int64)
            model = self.evaluator.kernel_model(tiled.piece.sketch)
            tiles = group_tiles(model, row)
            warps = prod(n for _, n in tiled.piece.sketch.warps)
            terms = [group_terms(tiles, self.resources, self.target, n, warps, tiled.share) for n in SIZES]
            seconds = None
            if terms[0].residency.possible[0] and self.prices.is_legal(tiled):
                seconds = self._seconds(group, tiled)
            if seconds is not None:
                return GroupSample(
                    program=self.program,
                    group=(group.root, *group.members),
                    tile=f"{row[0].tolist()}, {warps} warps, {tiled.share} in registers",
                    terms=tuple(tuple(t.columns()[0].tolist()) for t in terms),
                    seconds=seconds / prod(model.grid.sizes.tolist()),
                    points=float(tiles.points[0]),
                )
        return None

    def _random(self, group: FusedGroup) -> TiledKernel:
        """Return a random kernel of a group, which need not be legal."""
        (sketch,) = self.prices.sketches(self.graph, group)
        sketch, table = self.prices.candidates(sketch)
        warps, shares = self.prices.choices(sketch)
        row = table[self.rng.integers(len(table))]
        tiles = group_tiles(self.evaluator.kernel_model(sketch), row[None, :])
        split = int(tiles.split[0])
        share = float(self.rng.choice(shares)) if split >= 0 else 0.0
        return self.prices.tiled(sketch, row, int(self.rng.choice(warps)), split, share)

    def _seconds(self, group: FusedGroup, tiled: TiledKernel) -> float | None:
        """Return the simulated seconds of a kernel alone; None if it cannot be compiled."""
        kernel = self.prices.kernel(tiled)
        others = [self._alone(name) for name in self.graph.consumers if name not in group.funcs]
        kernels = [k for own in others for k in own] + [kernel]
        order = {name: k for k, name in enumerate(self.evaluator.bound.funcs)}
        kernels.sort(key=lambda k: (order[k.root_funcs[0]], k.roots[0].tiling.stage.number))
        schedule = Schedule.for_pipeline(self.evaluator.bound, kernels)
        try:
            return simulate_kernel(self.evaluator.bound, schedule, kernels.index(kernel), self.target)
        except AutoschedError:
            return None

    def _alone(self, name: str) -> list[Kernel]:
        return [self.prices.kernel(k) for k in self.prices.priced(FusedGroup(name))[0][1]]
