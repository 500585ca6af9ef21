"""Validation of features: predictions of the featurizer against counts of the traced emulator.

Random schedules are lowered, and the middle block of every kernel runs in the emulator, which counts requests, lanes,
sectors of global memory and wavefronts of shared memory by buffer. Three forms of the features are compared:

* every warp, each access as written: exact where addresses are;
* the first warp for all but the tail warp, as in the paper: its relative error is recorded;
* that form times the blocks of the grid, or times the points of the grid over those of a tile, against a sample of
  blocks: its relative error is recorded.

With ``vectors``, features of coalesced accesses, as in searches, are compared with kernels that have vector accesses.
Stores of interior blocks must be equal. The compiler coalesces more loads than the generated code, so the error of
loads is recorded.

Comparisons have three classes: ``exact``; ``approximate``, where an address is not exact
(`autosched.featurize.accesses.memory_traffic`); ``border``, where the middle block runs clamps and guards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.featurize.accesses.accesses import AccessTable
from autosched.featurize.emulator_counts import (
    QUANTITIES,
    TOTALS,
    Arrays,
    BufferCounts,
    TracedProgram,
    block_at,
    counted,
    is_boundary_block,
    names_in,
    predicted,
    sampled_blocks,
    totals,
)
from autosched.featurize.featurizer import Evaluation, Featurizer, SketchFeaturizer
from autosched.featurize.regions.memory_kinds import GLOBAL
from autosched.featurize.regions.nest_arrays import Ints
from autosched.featurize.regions.nest_geometry import middle_block
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.lower.program import lower
from autosched.runtime.emulator.trace import Trace
from autosched.schedule.types import Schedule
from autosched.target import Target

SIZES = {"H": 203, "W": 517}
"""Odd sizes of images."""
SMALLER = {"H": 101, "W": 203}
"""Smaller images for data-dependent addresses: every kernel must run in full before the next one."""
VOLUME = {"D": 31, "H": 37, "W": 45}
"""Odd sizes of volumes."""
CHAIN_STAGES = 4
TIME_STEPS = 2
"""Repetitions of the stages of iterative apps."""
TOLERANCE = 1e-9
SHOWN_FAILURES = 20
CLOSE = 0.05
"""Relative error up to which `report_lines` calls a prediction close."""


class SketchedKernel(Protocol):
    """A kernel as a sketch and one row of tile sizes."""

    @property
    def sketch(self) -> KernelSketch:
        """The sketch."""

    @property
    def params(self) -> Sequence[int]:
        """The tile sizes."""


Draw = Callable[[np.random.Generator], "tuple[Sequence[SketchedKernel], Schedule] | None"]
"""Draws a random legal schedule and its kernels as sketches; None if it finds none."""


@dataclass
class FeatureTally:
    """Comparisons of one app.

    Attributes:
        compared: Comparisons by quantity and class.
        equal: Comparisons with equal sides.
        errors: Relative errors by quantity, for approximations.
        failures: Differences in comparisons that must be exact.
        notes: Differences in approximations.
        kernels: Kernels compared.
    """

    compared: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    errors: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kernels: int = 0

    def add(self, other: FeatureTally) -> None:
        """Add the comparisons of another tally."""
        self.compared.update(other.compared)
        self.equal.update(other.equal)
        for name, values in other.errors.items():
            self.errors.setdefault(name, []).extend(values)
        self.failures += other.failures
        self.notes += other.notes
        self.kernels += other.kernels

    def compare(self, name: str, prediction: float, count: float) -> bool:
        """Count a comparison; return whether both sides are equal."""
        same = abs(prediction - count) <= TOLERANCE * max(abs(count), 1)
        self.compared[name] += 1
        self.equal[name] += same
        return same

    def error(self, name: str, prediction: float, count: float) -> None:
        """Record a relative error."""
        if prediction or count:
            self.errors.setdefault(name, []).append((prediction - count) / max(count, 1.0))


@dataclass(frozen=True)
class ValidationProblem:
    """A bound pipeline with inputs.

    Attributes:
        bound: The pipeline.
        arrays: Input arrays by name.
        scalars: Run-time parameters by name.
    """

    bound: BoundPipeline
    arrays: Arrays
    scalars: dict[str, Any]


def app_problem(name: str, grid: int = 0) -> ValidationProblem:
    """Return an app bound to odd sizes, or to images of ``grid`` by ``grid`` points."""
    app = get_app(name)
    structure = {"stages": CHAIN_STAGES, "T": TIME_STEPS}
    pipeline, params = app.configure({k: v for k, v in structure.items() if k in app.structure})
    odd = VOLUME if "D" in app.small_sizes else {"H": grid, "W": grid} if grid else SIZES
    if odd is SIZES and has_gathers(bind(pipeline, app.shapes(app.small_sizes), params)):
        odd = SMALLER
    sizes = {k: odd.get(k, v) for k, v in app.small_sizes.items()}
    arrays = app.make_inputs(sizes)
    bound = bind(pipeline, {n: a.shape for n, a in arrays.items()}, params)
    return ValidationProblem(bound, arrays, {p.name: params.get(p.name, p.default) for p in bound.scalars})


def has_gathers(bound: BoundPipeline) -> bool:
    """Whether the address of a load is not affine, as those of data-dependent loads."""
    table = AccessTable(bound)
    stages = [s for f in bound.funcs.values() for s in f.stages if s.values and not s.is_empty]
    loads = [g for s in stages for g in table.of(s.func, s.number, frozenset()).loads]
    return not all(g.is_affine for g in loads)


@dataclass
class FeatureChecker:
    """Compares the kernels of random schedules of one problem.

    Args:
        problem: The problem.
        target: Device limits.
        draw: Draws random schedules of the problem.
        grid_only: Whether only whole grids are compared, not the middle block.
        vectors: Whether kernels with coalesced accesses are compared, instead of those without.

    Attributes:
        as_written: Featurizer of every warp, each access as written.
        first_warp: Featurizer of the first warp, each access as written.
        coalesced: Featurizer of every warp, accesses coalesced.
        tally: The comparisons.
    """

    problem: ValidationProblem
    target: Target
    draw: Draw
    grid_only: bool = False
    vectors: bool = False
    as_written: Featurizer = field(init=False)
    first_warp: Featurizer = field(init=False)
    coalesced: Featurizer = field(init=False)
    tally: FeatureTally = field(init=False, default_factory=FeatureTally)

    def __post_init__(self) -> None:
        bound, target = self.problem.bound, self.target
        self.as_written = Featurizer(bound, target, amortised=False, every_warp=True)
        self.first_warp = Featurizer(bound, target, amortised=False)
        self.coalesced = Featurizer(bound, target, every_warp=True, vectors=True)
        self._gathers = has_gathers(bound)

    def check(self, seed: int) -> None:
        """Compare all kernels of one random schedule."""
        drawn = self.draw(np.random.default_rng(seed))
        if drawn is None:
            self.tally.notes.append(f"seed {seed}: no legal state")
            return
        kernels, schedule = drawn
        bound = self.problem.bound
        traced = self._traced(schedule, vectors=False)
        coalesced = self._traced(schedule, vectors=True) if self.vectors else None
        order = {n: k for k, n in enumerate(bound.funcs)}
        in_order = sorted(kernels, key=lambda p: (order[p.sketch.func], p.sketch.stages[0].number))
        for position, kernel in enumerate(in_order):
            self.tally.kernels += 1
            what = f"seed {seed} kernel {position} ({kernel.sketch.func})"
            params = np.array([kernel.params], np.int64)
            if coalesced is not None:
                self._compare_vectors(what, traced, coalesced, position, kernel.sketch, params)
            else:
                self._compare_kernel(what, traced, position, kernel.sketch, params)

    def check_all(self, seeds: Iterable[int]) -> FeatureTally:
        """Compare the random schedules of some seeds; return the tally."""
        for seed in seeds:
            self.check(seed)
        return self.tally

    def _traced(self, schedule: Schedule, *, vectors: bool) -> TracedProgram:
        program = lower(self.problem.bound, schedule, vectors=vectors)
        return TracedProgram.of(program, self.problem.arrays, self.problem.scalars)

    def _compare_vectors(
        self, what: str, traced: TracedProgram, coalesced: TracedProgram, position: int, sketch: KernelSketch,
        params: Ints,
    ) -> None:  # fmt: skip
        """Compare an interior block with vector accesses."""
        model = self.coalesced.model(sketch)
        count = model.grid.blocks(params)[1][0]
        middle = middle_block(count)
        here = block_at(middle, count, coalesced.kernels[position][0].grid)
        if self._gathers:
            coalesced.launch(position, None)  # addresses of later kernels depend on its results
            traced.launch(position, None)
        trace = coalesced.launch(position, [here])
        if not (trace.length > 1)[trace.requests > 0].any():
            return
        if is_boundary_block(traced, position, middle, traced.launch(position, [here])):
            return
        predictions = predicted(model, model.evaluate(params), names_in(model.bound, coalesced.program))
        for key, counts in counted(trace).items():
            prediction = predictions.get(key, {**dict.fromkeys(QUANTITIES, 0.0), "exact": 1.0})
            for q in ("requests", "transactions"):
                label = f"{'stores' if key[1] else 'loads'} by vectors, {q}"
                same = self.tally.compare(label, prediction[q], counts[q])
                self.tally.error(label, prediction[q], counts[q])
                if not same and key[1] and prediction["exact"]:
                    text = f"{what}: {label} of {key[0]} {prediction[q]:g}, counted {counts[q]:g}"
                    self.tally.failures.append(f"{text}; {_candidate_text(sketch, params)}")

    def _compare_kernel(
        self, what: str, traced: TracedProgram, position: int, sketch: KernelSketch, params: Ints
    ) -> None:
        """Compare the middle block, and a sample of blocks with the whole grid."""
        model = self.as_written.model(sketch)
        printed, _ = traced.kernels[position]
        tile, count = model.grid.blocks(params)
        if self._gathers:
            traced.launch(position, None)  # addresses of later kernels depend on its results
        middle: dict[str, float] = {}
        if not self.grid_only:
            here = block_at(middle_block(count[0]), count[0], printed.grid)
            trace = traced.launch(position, [here])
            middle = totals(trace)
            self._compare_block(what, traced, position, model, model.evaluate(params), trace, params)
        sums = dict.fromkeys(TOTALS, 0.0)
        for weight, blocks in sampled_blocks(count[0].tolist()).items():
            sample = traced.launch(position, [block_at(b, count[0], printed.grid) for b in blocks])
            for name, n in totals(sample).items():
                sums[name] += weight * n
        whole_tiles = float(np.prod(model.grid.sizes / tile[0]))  # a partial tile counts as its share
        for name, n in self._first_warp_totals(sketch, params).items():
            if middle:
                self.tally.error(f"first warp for all, {name}", n, middle[name])
            self.tally.error(f"whole grid by blocks, {name}", n * int(count.prod()), sums[name])
            self.tally.error(f"whole grid by points, {name}", n * whole_tiles, sums[name])

    def _first_warp_totals(self, sketch: KernelSketch, params: Ints) -> dict[str, float]:
        """Return the transactions of a block, extrapolated from the first warp to all but the tail warp."""
        model = self.first_warp.model(sketch)
        rows = model.evaluate(params).features[0, : len(model.rows)].sum(axis=0)
        return {name: float(rows[INDEX[f"num_{name.replace(' ', '_mem_')}_per_block"]]) for name in TOTALS}

    def _compare_block(
        self, what: str, traced: TracedProgram, position: int, model: SketchFeaturizer, evaluation: Evaluation,
        trace: Trace, params: Ints,
    ) -> None:  # fmt: skip
        """Compare one block, with every warp and access as written."""
        printed, _ = traced.kernels[position]
        for name, prediction, count in (
            ("threads", int(evaluation.geometry.block[0].prod()), trace.threads),
            ("blocks", int(evaluation.geometry.blocks[0]), int(np.prod(printed.grid))),
            ("shared bytes", int(evaluation.shared_bytes[0]), printed.shared_bytes),
        ):
            if not self.tally.compare(name, prediction, count):
                self.tally.failures.append(f"{what}: {name} {prediction}, counted {count}")
        middle = middle_block(model.grid.blocks(params)[1][0])
        at_boundary = is_boundary_block(traced, position, middle, trace)
        predictions = predicted(model, evaluation, names_in(model.bound, traced.program))
        candidate = _candidate_text(model.sketch, params)
        self._compare_buffers(what, predictions, counted(trace), candidate, at_boundary=at_boundary)

    def _compare_buffers(
        self, what: str, predictions: BufferCounts, counts: BufferCounts, candidate: str, *, at_boundary: bool
    ) -> None:
        nothing = dict.fromkeys(QUANTITIES, 0.0)
        for key in {**predictions, **counts}:
            prediction = predictions.get(key, {**nothing, "exact": 1.0, "memory": -1.0})
            count = counts.get(key, nothing)
            kind = "border" if at_boundary else "exact" if prediction["exact"] else "approximate"
            memory = "global" if prediction["memory"] == GLOBAL else "shared"
            unit = "sectors" if memory == "global" else "wavefronts"
            direction = "stores" if key[1] else "loads"
            for q in QUANTITIES:
                label = f"{memory} {direction} {unit if q == 'transactions' else q}"
                if not self.tally.compare(f"{label}, {kind}", prediction[q], count[q]):
                    text = f"{what}: {label} of {key[0]} {prediction[q]:g}, counted {count[q]:g}; {candidate}"
                    (self.tally.failures if kind == "exact" else self.tally.notes).append(text)
                if kind != "exact":
                    self.tally.error(f"{label}, {kind}", prediction[q], count[q])


def _candidate_text(sketch: KernelSketch, params: Ints) -> str:
    loops = {p: f"{p.enclosing}{' each term' if p.each_term else ''}" for p in sketch.locations}
    locations = ", ".join(f"{p.func}@{p.level.name}({p.host},{loops[p]})" for p in sketch.locations)
    return f"[{locations}] inlined {sorted(sketch.inlined)} {params[0].tolist()}"


def report_lines(name: str, tally: FeatureTally, seconds: float, *, verbose: bool = False) -> Iterator[str]:
    """Yield the lines of a report on one app.

    Args:
        name: The app.
        tally: Its comparisons.
        seconds: Time of the comparisons.
        verbose: Whether differences of approximations are listed.
    """
    yield f"{name}: {tally.kernels} kernels, {len(tally.failures)} failures in {seconds:.0f} s"
    for what in sorted(tally.compared):
        errors = tally.errors.get(what, [])
        spread = _spread(errors) if errors else ""
        yield f"  {what}: {tally.equal[what]} of {tally.compared[what]} equal{spread}"
    for what in sorted(tally.errors):
        if what not in tally.compared:
            yield f"  {what}:{_spread(tally.errors[what])}"
    for text in (*(f"FAILED {f}" for f in tally.failures[:SHOWN_FAILURES]), *(tally.notes if verbose else ())):
        yield f"  {text}"


def _spread(errors: Sequence[float]) -> str:
    sizes = np.abs(errors)
    within = float((sizes <= CLOSE).mean())
    return (
        f" relative error: median {np.median(sizes):.3f}, mean {np.mean(errors):+.3f}, largest {sizes.max():.2f}, "
        f"{within:.0%} within 5 %"
    )


def figures(tally: FeatureTally) -> dict[str, Any]:
    """Return a tally as plain data for JSON."""
    return {
        "kernels": tally.kernels,
        "failures": tally.failures,
        "equal": {k: [tally.equal[k], n] for k, n in tally.compared.items()},
        "median_error": {k: float(np.median(np.abs(v))) for k, v in tally.errors.items()},
        "mean_error": {k: float(np.mean(v)) for k, v in tally.errors.items()},
    }
