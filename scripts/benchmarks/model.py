"""Time a cost model's predictions against featurizing the same kernels, for several batch sizes.

    python scripts/bench_model.py [--model WEIGHTS.safetensors] [--target h200] [--app harris]

Prints microseconds a kernel, the least of several rounds. The kernels come from random states of a suite app, with
several sketches in each batch, as in a search.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.tables.pipeline_tables import BatchEvaluation, PipelineTables
from autosched.model.predict.learned import load_model
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import CostModel, Floats
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.target import get_target

SIZES = (10, 100, 500, 1000, 2000)


class RecordingModel:
    """A cost model that records the kernels of its queries."""

    name = "recording"

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self.queries: list[tuple[SketchFeaturizer, Floats]] = []

    def cost(self, evaluation: BatchEvaluation) -> Floats:
        batch = evaluation.batch
        for model, first, end in zip(evaluation.models, batch.bounds, batch.bounds[1:], strict=False):
            self.queries += [(model, row) for row in batch.params[first:end, : model.layout.count]]
        return self.model.cost(evaluation)


def grouped(queries: list[tuple[SketchFeaturizer, Floats]]) -> tuple[list[SketchFeaturizer], list[Floats]]:
    groups: dict[SketchFeaturizer, list[Floats]] = {}
    for model, row in queries:
        groups.setdefault(model, []).append(row)
    return list(groups), [np.array(rows) for rows in groups.values()]


def least(work: Callable[[], object], rounds: int) -> float:
    """Return the least seconds of some rounds."""
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="file of weights (default: those shipped for the target)")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--app", default="harris")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    target = get_target(options.target)
    model = load_model(options.model or target, target)
    analytical = analytical_model(target)
    app = get_app(options.app)
    pipeline, params = app.configure({})
    bound = bind(pipeline, app.shapes({}), params)
    recording = RecordingModel(analytical)
    evaluator = KernelEvaluator(bound, target, recording, SearchSettings())
    states = RandomStates(evaluator)
    seed = 0
    while len(recording.queries) < max(SIZES):
        drawn = states.draw(np.random.default_rng(seed))
        evaluator.evaluate((p.sketch, p.params) for p in drawn.pieces)
        seed += 1
    print(f"{model.name}; microseconds a kernel")
    print(f"{'kernels':>8}{'sketches':>12}{'features':>10}{'analytical':>12}{'learned':>10}")
    for size in SIZES:
        models, tables = grouped(recording.queries[-size:])
        kernels: PipelineTables = models[0].tables
        evaluation = kernels.evaluate(models, tables)
        times = [
            least(work, options.rounds) / size * 1e6
            for work in (
                lambda m=models, t=tables, k=kernels: k.evaluate(m, t),
                lambda e=evaluation: analytical.cost(e),
                lambda e=evaluation: model.cost(e),
            )
        ]
        print(f"{size:8}{len(models):12}" + f"{times[0]:10.1f}{times[1]:12.1f}{times[2]:10.1f}", flush=True)
