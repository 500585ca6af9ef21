"""A cost model's prediction of any schedule, with its features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.scaling.step_scaling import scaling_for
from autosched.featurize.schema import NAMES
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.measure.backend import SIMULATED_SOURCE
from autosched.model.predict.bundled_weights import KINDS, find_weights
from autosched.schedule.types import Kernel, Schedule
from autosched.search.cost.cpu.analytical import CpuModel
from autosched.search.cost.cpu.coefficients import RATES
from autosched.search.cost.gpu_analytical import AnalyticalModel, analytical_model
from autosched.search.cost.protocol import CostModel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.results import SearchResult
from autosched.search.tune.cost_models import LEARNED, cost_model
from autosched.target import Target


@dataclass(frozen=True, slots=True)
class KernelPrediction:
    """Prediction of one kernel.

    Attributes:
        seconds: Predicted time; NaN if one point of the kernel has too many reads for the featurizer.
        components: Seconds of each unit of the device, if the model distinguishes them.
        features: Features by name, by stage (and inlined Func); empty if the time is NaN.
    """

    seconds: float = float("nan")
    components: Mapping[str, float] = field(default_factory=dict)
    features: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def total(self, *names: str) -> float:
        """Return the sum of some features over all stages; NaN if they are unknown."""
        if not self.features:
            return float("nan")
        return sum(row[name] for row in self.features.values() for name in names)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction of a schedule.

    Attributes:
        model: Name of the cost model.
        labels: Source of the times that the model was trained on or fitted to.
        is_simulated: Whether these are simulated.
        kernels: The kernels in launch order.
    """

    model: str
    labels: str
    is_simulated: bool
    kernels: tuple[KernelPrediction, ...]

    @property
    def seconds(self) -> float:
        """Predicted time of the pipeline; NaN if that of a kernel is unknown."""
        return sum(k.seconds for k in self.kernels)


def predict(
    bound: BoundPipeline,
    schedule: Schedule,
    target: Target,
    search_result: SearchResult | None = None,
    model_name: str = "",
    registers: Sequence[int | None] = (),
) -> Prediction:
    """Predict the times of a schedule's kernels.

    Args:
        bound: The pipeline.
        schedule: A legal schedule of it.
        target: The schedule's target.
        search_result: The search with the schedule, whose cost model is used.
        model_name: Name of the cost model without a search; if it is not the package's model, the target's analytical
            model is used.
        registers: Registers of a thread of each kernel, if they are known; they limit the residency that the
            analytical model predicts with.
    """
    evaluator = None if search_result is None else search_result.evaluator
    if evaluator is not None and evaluator.bound.rewrites != schedule.rewrites:  # of another rewrite of the pipeline
        evaluator = None
    model = _model(model_name, target) if evaluator is None else evaluator.model
    featurizer = Featurizer(bound, target) if evaluator is None else evaluator.featurizer
    source = getattr(model, "source", "")
    known = registers or [None] * len(schedule.kernels)
    kernels = tuple(_predicted(featurizer, model, *one) for one in zip(schedule.kernels, known, strict=True))
    return Prediction(model.name, _labels(model, source), source.startswith(SIMULATED_SOURCE), kernels)


def _model(name: str, target: Target) -> CostModel:
    if name and find_weights(target, KINDS):
        shipped = cost_model(LEARNED, target)
        if shipped.name == name:
            return shipped
    return analytical_model(target)


def _predicted(featurizer: Featurizer, model: CostModel, kernel: Kernel, registers: int | None) -> KernelPrediction:
    stepped = scaling_for(featurizer.bound, kernel) is not None
    if not stepped and featurizer.model(describe_kernel(featurizer.bound, kernel)[0]).overflow:
        return KernelPrediction()
    plain = evaluated(featurizer, kernel)
    evaluation = plain.with_registers(model, registers)
    batch = evaluation.batch_evaluation
    parts: dict[str, float] = {}
    if isinstance(model, AnalyticalModel | CpuModel):
        # the features of a scan are those of one step
        times = evaluation.seconds(model) / float(model.cost(batch)[0])
        parts = {name: float(part[0]) * times for name, part in model.parts(batch).items()}
    stages = [*map(str, evaluation.model.rows), *evaluation.model.inlined]
    rows = {
        n: dict(zip(NAMES, plain.batch_evaluation.features[0, k].tolist(), strict=True)) for k, n in enumerate(stages)
    }
    return KernelPrediction(evaluation.seconds(model), parts, rows)


def _labels(model: CostModel, source: str) -> str:
    if source:
        return f"trained with {'simulated' if source.startswith(SIMULATED_SOURCE) else 'measured'} times: {source}"
    if isinstance(model, CpuModel):
        which = "a processor like this" if model.target.processor in RATES else "another processor"
        return f"rates fitted to measured times of the C backend on {which}"
    if isinstance(model, AnalyticalModel):
        return "rates of the data sheet; it has learned from no times"
    return "unknown"
