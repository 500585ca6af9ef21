"""Random kernels of small suite apps, as sketches with tile sizes and as kernels of a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.regions.nest_geometry import Ints
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.validation import FeatureChecker, SketchedKernel, ValidationProblem
from autosched.schedule.types import Kernel, Schedule
from autosched.search.beam.random_states import RandomStates
from autosched.search.beam.state import PartialKernel, State
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.target import get_target
from tests.stage_limits import FEW_STAGES

H200 = get_target("h200")
SIZES = {"H": 61, "W": 131}


@dataclass(frozen=True)
class Drawn:
    """One kernel of a random state."""

    featurizer: Featurizer
    piece: PartialKernel

    @property
    def params(self) -> Ints:
        return np.array([self.piece.params], np.int64)

    @property
    def kernel(self) -> Kernel:
        return build_kernel(self.featurizer.model(self.piece.sketch), self.params[0])


def bound_app(name: str) -> BoundPipeline:
    app = get_app(name)
    short = {"stages": 4} if "stages" in app.structure else FEW_STAGES[name] if name == "denoise" else {}
    pipeline, params = app.configure(short)
    sizes = {k: SIZES.get(k, v) for k, v in app.small_sizes.items()}
    return bind(pipeline, app.shapes(sizes), params)


def states_of(bound: BoundPipeline, *, varied: bool = False) -> RandomStates:
    return RandomStates(KernelEvaluator(bound, H200, AnalyticalModel(H200), SearchSettings()), varied=varied)


def checker_of(problem: ValidationProblem, *, grid_only: bool = False, vectors: bool = False) -> FeatureChecker:
    """Return a checker of random states, tiles and cache reads varied."""
    states = states_of(problem.bound, varied=True)

    def draw(rng: np.random.Generator) -> tuple[Sequence[SketchedKernel], Schedule] | None:
        drawn = states.draw_legal(rng)
        return drawn and (drawn[0].pieces, drawn[1])

    return FeatureChecker(problem, H200, draw, grid_only=grid_only, vectors=vectors)


def drawn_states(bound: BoundPipeline, count: int, seed: int = 0) -> list[State]:
    states = states_of(bound)
    found = (states.draw_legal(np.random.default_rng(seed + k)) for k in range(count))
    return [f[0] for f in found if f is not None]


def drawn_kernels(name: str, count: int, seed: int = 0) -> Iterator[Drawn]:
    """Yield the kernels of some random legal states."""
    bound = bound_app(name)
    featurizer = Featurizer(bound, H200)
    for state in drawn_states(bound, count, seed):
        for piece in state.pieces:
            yield Drawn(featurizer, piece)
