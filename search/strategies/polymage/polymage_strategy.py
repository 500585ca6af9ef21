"""PolyMage-GPU's automatic fusion as a strategy: pointwise Funcs inlined, groups by dynamic programming (section 6)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Schedule
from autosched.search.beam.state import State
from autosched.search.beam.to_schedule import ordered
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import CostModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.fusion.fused_pipeline import state_of_kernels
from autosched.search.fusion.group_graph import GroupGraph
from autosched.search.fusion.partition_search import PartitionSearch
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.results import RankedSchedule, SearchResult, baseline_alone
from autosched.search.settings import PAPER
from autosched.search.space.effort import TOO_LONG, is_too_long
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.compute_root import inlined_funcs, is_pointwise
from autosched.search.strategies.polymage.priced_groups import PolymageGroups
from autosched.search.strategies.polymage.settings import PolymageSettings
from autosched.search.strategies.polymage.stage_resources import measure_stages
from autosched.search.strategies.sioutas.deadline import Deadline
from autosched.target import Target


@dataclass(frozen=True, slots=True)
class Polymage:
    """Fusion by dynamic programming with the cost of Jangda and Guha 2020, a tile for each warp.

    Attributes:
        settings: Weights and sizes.
    """

    settings: PolymageSettings = field(default_factory=PolymageSettings)

    def search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None = None, seconds: float | None = None,
        seed: int = 0, count: int = 1,
    ) -> SearchResult:  # fmt: skip
        """Return one schedule; see `autosched.search.strategies.protocol.Strategy.search`.

        Decisions follow the cost of the paper; ``cost`` only predicts the time of the result.

        Raises:
            InputError: If the target is no GPU, or a setting is out of range.
        """
        self.settings.check()
        if target.kind != "cuda":
            raise InputError(f"strategy polymage schedules GPUs only, and {target.name} is none: choose dp, or a GPU")
        if is_too_long(bound):
            return baseline_alone(bound, target, TOO_LONG)
        started = time.perf_counter()
        deadline = Deadline(None if seconds is None else started + seconds)
        model = cost or analytical_model(target)
        evaluator = KernelEvaluator(bound, target, model, PAPER)
        enumerator = OptionEnumerator(evaluator)
        inlined = enumerator.compute_locations.inlined_before | pointwise_inlined(bound)
        resources = measure_stages(bound.rewritten, target, inlined)
        groups = PolymageGroups(enumerator, resources, self.settings, deadline.passed)
        graph = GroupGraph(evaluator.bound, inlined)
        partitions = PartitionSearch(groups, self.settings.most_funcs, float("inf"), 1).partitions(graph)
        notes = [resources.problem] if resources.problem else []
        if not partitions:
            return baseline_alone(bound, target, "no tile of a Func is legal; this is the baseline schedule")
        chosen = [k for group in partitions[0].groups for k in groups.priced(group)[0][1]]
        state = state_of_kernels(evaluator, [k.piece for k in chosen])
        of_piece = {k.piece: groups.kernel(k) for k in chosen}
        kernels = [of_piece[piece] for piece in ordered(evaluator, state)]
        schedule = Schedule.for_pipeline(evaluator.bound, kernels)
        illegal = violations(bound, schedule, target)
        if illegal:
            return baseline_alone(
                bound, target, f"the result was illegal ({illegal[0]}); this is the baseline schedule"
            )
        if deadline.cut_short:
            notes.append("the time budget ended before all groups were tried")
        elapsed = time.perf_counter() - started
        ranked = _ranked(evaluator, schedule, state)
        return SearchResult((ranked,), evaluator.counts, elapsed, deadline.cut_short, "; ".join(notes), evaluator)


def _ranked(evaluator: KernelEvaluator, schedule: Schedule, state: State) -> RankedSchedule:
    """Return a schedule with its predicted time; a state describes no hybrid tiles, and is left out with any."""
    hybrid = [k for k in schedule.kernels if k.has_hybrid_tiles]
    if not hybrid:
        return RankedSchedule(schedule, state.cost, state, evaluator)
    whole = [describe_kernel(evaluator.bound, k) for k in schedule.kernels if k not in hybrid]
    evaluator.evaluate(whole)
    seconds = sum(evaluator.verdict(*k).cost for k in whole)
    seconds += sum(evaluated(evaluator.featurizer, k).seconds(evaluator.model) for k in hybrid)
    return RankedSchedule(schedule, seconds)


def pointwise_inlined(bound: BoundPipeline) -> frozenset[str]:
    """Return the Funcs that are inlined: pointwise ones and boundary conditions of those that the baseline inlines."""
    return frozenset(
        name
        for name in inlined_funcs(bound)
        if bound.funcs[name].boundary is not None or is_pointwise(bound, bound.funcs[name])
    )
