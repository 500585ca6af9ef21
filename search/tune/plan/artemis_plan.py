"""The plan of Artemis (section VII): classify, tune level by level as the bottlenecks suggest, classify again.

The schedule of the search is the baseline. Its structure, then its blocks and unrolling factors are tuned kernel by
kernel, the slowest first; equal kernels, such as the sweeps of a stencil, change together. Other levels apply to the
best few schedules alone. Choices that rules turn off are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import AutoschedError, MeasureError
from autosched.featurize.featurizer import Featurizer
from autosched.lower.program import lower
from autosched.measure.compare.code_differencing import difference_kernels
from autosched.measure.simulated import simulate
from autosched.measure.simulated.device import Device
from autosched.runtime.backends.factory import launch_info
from autosched.schedule.kernel.register_limit import resident_blocks_for
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Kernel, Schedule
from autosched.search.bottleneck.classification import BottleneckKind
from autosched.search.bottleneck.diagnosis import Diagnosis, diagnose_schedule
from autosched.search.bottleneck.feature_counts import counted_flops, repetitions
from autosched.search.bottleneck.kernel_profile import KernelProfile
from autosched.search.bottleneck.rules import Move, Optimisation, turned_off
from autosched.search.bottleneck.simulated_counts import simulated_profile
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.guidance.conformance import meets_guide
from autosched.search.guidance.guide import Guide
from autosched.search.guidance.register_limits import threads_of
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.tune.effort_levels import effort_level
from autosched.search.tune.final_selection import select_fastest
from autosched.search.tune.plan.levels import PlanLevel
from autosched.search.tune.plan.move_variations import MoveVariations
from autosched.search.tune.plan.plan_timer import PlanTimer, PlanTrial
from autosched.search.tune.plan.step_variations import (
    perspective_variations,
    prefetch_variations,
    streaming_variations,
)
from autosched.search.tune.plan.tile_variations import TileVariations
from autosched.search.tune.plan.variation import Variation, similar_kernels, varied_schedule

BEST_FEW = 3
"""Schedules to which the levels after the tilings apply."""
LEAST_SHARE = 0.05
"""Share of the time of a schedule, below which kernels are not tuned."""
REGISTERS = (32, 64, 128, 255)
"""Limits of the registers of a thread, by launch bounds; the next one is tried for what spills."""

HIGH_IMPACT = (PlanLevel.MOVES, PlanLevel.TILES)


@dataclass(frozen=True)
class PlanProgress:
    """Progress of a plan.

    Attributes:
        level: The level, or empty while the baseline is measured and kernels are classified.
        measured: Number of schedules with a result.
        best: The shortest time so far in seconds; infinite before the first.
    """

    level: str
    measured: int
    best: float


@dataclass(frozen=True)
class PlanResult:
    """Result of a plan.

    Attributes:
        best: The chosen schedule.
        seconds: Its time.
        baseline: The schedule of the search.
        before: Diagnosis of each kernel of the baseline.
        after: Diagnosis of each kernel of the best schedule.
        trials: All schedules, the fastest first.
        by_level: Time of the best schedule after each level, by its name.
        registers: Most registers of a thread that the levels allowed; 0 on a CPU.
        cut_short: Whether the time budget ended the plan.
    """

    best: PlanTrial
    seconds: float
    baseline: PlanTrial
    before: tuple[Diagnosis, ...]
    after: tuple[Diagnosis, ...]
    trials: tuple[PlanTrial, ...]
    by_level: tuple[tuple[str, float], ...]
    registers: int
    cut_short: bool


@dataclass
class ArtemisPlan:
    """Tunes a schedule.

    Args:
        timer: Measures schedules.
        levels: The levels, in their order.
        guide: Choices of an expert, which all schedules meet.
        differencing: Whether kernels in doubt are timed with confined accesses, on the device itself.
        report: Called with the progress.
    """

    timer: PlanTimer
    levels: Sequence[PlanLevel]
    guide: Guide = field(default_factory=Guide)
    differencing: bool = False
    report: Callable[[PlanProgress], None] | None = None
    _bound: BoundPipeline = field(init=False)
    _evaluator: KernelEvaluator = field(init=False)
    _enumerator: OptionEnumerator = field(init=False)
    _tiles: TileVariations = field(init=False)
    _moves: MoveVariations = field(init=False)
    _registers: int = field(init=False, default=0)
    _level: int = field(init=False, default=0)

    def run(self, schedule: Schedule) -> PlanResult:
        """Tune a schedule.

        Args:
            schedule: A legal schedule of the pipeline, the baseline.

        Raises:
            MeasureError: If the baseline has no time.
        """
        target = self.timer.target
        self._bound = apply_rewrites(self.timer.problem.bind(), schedule)
        settings = effort_level("default").settings[target.kind]
        self._evaluator = KernelEvaluator(self._bound, target, analytical_model(target), settings)
        self._enumerator = OptionEnumerator(self._evaluator)
        self._tiles = TileVariations(self._evaluator, self._enumerator)
        self._moves = MoveVariations(self._evaluator, self._enumerator)
        self._tell("")
        (baseline,) = self.timer.measure([("baseline", schedule)]) or [PlanTrial("baseline", schedule)]
        if baseline.timing is None:
            raise MeasureError(f"the baseline has no time: {baseline.problem or 'the time budget is too short'}")
        before = self._diagnosed(baseline)
        by_level = [("baseline", baseline.seconds)]
        for level in self.levels:
            self._tell(level.value)
            for start in self.timer.best(1 if level in HIGH_IMPACT else BEST_FEW):
                self._tune(level, start)
            by_level.append((level.value, self.timer.best(1)[0].seconds))
        best, seconds = self._chosen(baseline)
        trials = tuple(sorted(self.timer.trials.values(), key=lambda t: t.seconds))
        return PlanResult(
            best, seconds, baseline, before, self._diagnosed(best), trials, tuple(by_level), self._registers,
            self.timer.is_late,
        )  # fmt: skip

    def _tune(self, level: PlanLevel, start: PlanTrial) -> None:
        """Measure the variations of a level; high-impact ones of each kernel start from the best of the one before."""
        current = start
        for numbers in self._groups(start):
            if self.timer.is_late:
                return
            if level is PlanLevel.TILES:
                self._tune_tiles(current, numbers)
            else:
                self._measure(self._candidates(level, current, numbers))
            if level in HIGH_IMPACT:
                best = self.timer.best(1)[0]
                same_kernels = len(best.schedule.kernels) == len(current.schedule.kernels)
                if not same_kernels:
                    return  # positions of kernels are others
                current = best

    def _groups(self, trial: PlanTrial) -> list[tuple[int, ...]]:
        """Return groups of equal kernels with enough time, the slowest first."""
        assert trial.timing is not None
        times, whole = trial.timing.kernel_seconds, trial.timing.seconds
        groups = similar_kernels(self._bound, trial.schedule, self.timer.target)
        seconds = {numbers: sum(times[k] for k in numbers) for numbers in groups}
        chosen = [numbers for numbers in groups if seconds[numbers] >= LEAST_SHARE * whole]
        return sorted(chosen, key=lambda numbers: -seconds[numbers])

    def _candidates(
        self, level: PlanLevel, trial: PlanTrial, numbers: tuple[int, ...]
    ) -> Iterator[tuple[str, Schedule]]:
        kernel = trial.schedule.kernels[numbers[0]]
        if level is PlanLevel.MOVES:
            rules = self._diagnosis(trial, numbers[0]).rules
            shared_off = Optimisation.SHARED_MEMORY in turned_off(rules)
            for rule in rules:
                if rule.move is not Move.USE_SHARED_MEMORY or not shared_off:
                    yield from self._moves.of(rule.move, trial.schedule, numbers)
            return
        if level is PlanLevel.PREFETCH:
            variations: Iterator[Variation] = prefetch_variations(kernel)
        elif level is PlanLevel.STREAMING:
            variations = streaming_variations(self._evaluator, kernel)
        else:
            variations = perspective_variations(self._evaluator, self._enumerator, kernel)
        yield from self._varied(trial, numbers, variations)

    def _varied(
        self, trial: PlanTrial, numbers: tuple[int, ...], variations: Iterator[Variation] | Sequence[Variation]
    ) -> Iterator[tuple[str, Schedule]]:
        for variation in variations:
            varied = varied_schedule(self._bound, self.timer.target, trial.schedule, numbers, variation)
            if varied is not None:
                yield variation.name, varied

    def _tune_tiles(self, trial: PlanTrial, numbers: tuple[int, ...]) -> None:
        """Measure tilings in increasing order of their unrolling, until all of one product spill registers."""
        self._level = 0
        diagnosis = self._diagnosis(trial, numbers[0])
        kept = Optimisation.UNROLLING in turned_off(diagnosis.rules)
        variations = self._tiles.of(
            trial.schedule.kernels[numbers[0]],
            compute_bound=diagnosis.bottleneck.kind is BottleneckKind.COMPUTE,
            most_points=diagnosis.traits.points_per_thread if kept else None,
        )
        for _, same in groupby(variations, key=lambda v: v.points):
            if self.timer.is_late or self._all_spill(trial, numbers, list(same)):
                break
        self._without_limit(numbers)

    def _all_spill(self, trial: PlanTrial, numbers: tuple[int, ...], same: Sequence[Variation]) -> bool:
        """Measure tilings of one product; return whether all of them spill, whatever the limit of registers.

        The limit is raised only while something spills, and only what spills is measured again.
        """
        if self.timer.target.kind == "cpu":
            self._measure(self._varied(trial, numbers, same))
            return False
        while True:
            limit = REGISTERS[self._level]
            limited = [(v, replace(v, apply=partial(self._limited, v, limit))) for v in same]
            varied = [(v, one) for v, w in limited for one in self._varied(trial, numbers, [w])]
            trials = {t.schedule: t.timing for t in self._measure(one for _, one in varied) if t.timing is not None}
            timed = {v.name: timing for v, (_, s) in varied if (timing := trials.get(s)) is not None}
            if timed:
                self._registers = max(self._registers, limit)
            spilling = [v for v in same if (t := timed.get(v.name)) is not None and t.spill_bytes[numbers[0]]]
            if not spilling or self._level == len(REGISTERS) - 1 or self.timer.is_late:
                return bool(timed) and len(spilling) == len(timed)
            self._level += 1
            same = spilling

    def _limited(self, variation: Variation, registers: int, kernel: Kernel) -> Kernel | None:
        """Return a varied kernel with launch bounds for so many registers of a thread."""
        changed = variation.apply(kernel)
        if changed is None or registers == REGISTERS[-1]:
            return changed
        threads = threads_of(self._bound, changed)
        return replace(changed, resident_blocks=resident_blocks_for(self.timer.target, threads, registers))

    def _without_limit(self, numbers: tuple[int, ...]) -> None:
        """Measure the fastest schedule with all registers for some of its kernels: fewer may cost instructions."""
        best = self.timer.best(1)[0]
        free = Variation(f"{best.name}, all registers", lambda k: replace(k, resident_blocks=0))
        if all(k < len(best.schedule.kernels) for k in numbers):
            self._measure(self._varied(best, numbers, [free]))

    def _measure(self, candidates: Iterable[tuple[str, Schedule]]) -> list[PlanTrial]:
        """Measure the candidates that meet the guide."""
        root, target = self.timer.problem.bind(), self.timer.target
        return self.timer.measure([(n, s) for n, s in candidates if meets_guide(root, s, self.guide, target)])

    def _chosen(self, baseline: PlanTrial) -> tuple[PlanTrial, float]:
        """Return the fastest schedule beyond noise, and its time."""
        groups = [[self.timer.timed(t) for t in self.timer.best(BEST_FEW)]]
        selection = select_fastest(self.timer.timed(baseline), groups, self.timer.comparison)
        text = selection.chosen.job.schedule
        best = next(t for t in [baseline, *self.timer.best(BEST_FEW)] if self.timer.timed(t).job.schedule == text)
        return best, selection.seconds

    def _diagnosis(self, trial: PlanTrial, number: int) -> Diagnosis:
        return self._diagnosed(trial)[number]

    def _diagnosed(self, trial: PlanTrial) -> tuple[Diagnosis, ...]:
        """Return the diagnosis of each kernel, by counts of the simulated device where that times schedules."""
        assert trial.timing is not None
        target, timing = self.timer.target, trial.timing
        infos = list(launch_info(lower(self._bound, trial.schedule)))
        if timing.registers:
            infos = [
                replace(info, registers=registers, spill_bytes=spills)
                for info, registers, spills in zip(infos, timing.registers, timing.spill_bytes, strict=True)
            ]
        counters = self._simulated(trial.schedule) if self.timer.backend.source.startswith("simulated") else {}
        found = diagnose_schedule(
            self._bound, trial.schedule, target, timing.kernel_seconds, infos, counters=counters
        )  # fmt: skip
        if self.differencing and any(d is not None and _is_in_doubt(d) for d in found):
            differences = difference_kernels(self.timer.problem.bind(), trial.schedule, target)
            ratios = {d.name: d.ratio for d in differences if not d.problem}
            found = diagnose_schedule(
                self._bound, trial.schedule, target, timing.kernel_seconds, infos, confined_ratios=ratios
            )  # fmt: skip
        diagnoses = [d for d in found if d is not None]
        if len(diagnoses) != len(found):
            raise MeasureError("a kernel has too many reads for the features that classify it: tune without a plan")
        return tuple(diagnoses)

    def _simulated(self, schedule: Schedule) -> dict[str, KernelProfile]:
        target = self.timer.target
        device, featurizer = Device.of(target), Featurizer(self._bound, target)
        profiles = {}
        kernels = simulate(self.timer.problem.bind(), schedule, target).kernels
        for kernel, part in zip(schedule.kernels, kernels, strict=True):
            try:
                features = evaluated(featurizer, kernel).batch_evaluation
            except AutoschedError:  # a kernel that no sketch describes
                continue
            steps, launches = repetitions(self._bound, kernel)
            profiles[part.name] = simulated_profile(part, device, steps * counted_flops(features), launches)
        return profiles

    def _tell(self, level: str) -> None:
        if self.report is not None:
            best = self.timer.best(1)
            self.report(PlanProgress(level, len(self.timer.trials), best[0].seconds if best else float("inf")))


def _is_in_doubt(d: Diagnosis) -> bool:
    """Whether counts do not decide: times are near each other, or nothing that is counted fills the measured time."""
    return d.bottleneck.undecided or d.bottleneck.kind is BottleneckKind.LATENCY
