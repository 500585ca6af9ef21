"""Settings of a cost model and its training; this module does not import PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from autosched.errors import InputError

Form = Literal["paper", "timed"]
"""Use of the coefficients: `paper` as in Anderson's Appendix B, `timed` as corrections of the analytical model."""

WIDEST = 4096
"""Largest width of a layer, which limits the memory of weights from a file."""
MOST_MEMBERS = 16


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Shape of the network.

    Attributes:
        form: ``paper`` multiplies coefficients with the cost components of Appendix B, per stage; ``timed`` corrects
            the analytical time of each unit of the device, per kernel.
        algorithm_width: Length of the embedding of algorithm features (8 in the paper's code).
        schedule_width: Length of the embedding of schedule features (24 in the paper's code).
        hidden: Width of the layers between the embeddings and the coefficients of the form ``timed``.
        standardise: Whether features are scaled to mean 0 and deviation 1 over the training set.
        clip: Largest absolute value of a standardised feature, for values outside of the training set.
        correction: Largest factor of ``timed`` for a unit's time, in both directions.
        unit_seconds: Seconds of one unit of cost of the form ``paper``.
        members: Number of averaged networks of the form ``timed``, trained from different seeds.
        trust: Weight of the network against the analytical time, in logarithms; 1 is the network alone
            (`autosched.model.predict.prediction_trust`). Training does not use it.
    """

    form: Form = "timed"
    algorithm_width: int = 8
    schedule_width: int = 24
    hidden: int = 64
    standardise: bool = True
    clip: float = 4.0
    correction: float = 4.0
    unit_seconds: float = 1e-12
    members: int = 1
    trust: float = 1.0

    def __post_init__(self) -> None:
        if self.form not in ("paper", "timed"):
            raise InputError(f"no form {self.form!r} of a cost model: choose paper or timed")
        if not 1 <= self.members <= MOST_MEMBERS or (self.members > 1 and self.form == "paper"):
            raise InputError(f"a cost model has {self.members} members: give 1 to {MOST_MEMBERS}, of the form timed")
        widths = self.algorithm_width, self.schedule_width, self.hidden
        if min(widths) < 1 or max(widths) > WIDEST:
            raise InputError(f"a cost model's widths are {widths}: give 1 to {WIDEST}")
        if self.correction <= 1 or self.clip <= 0 or self.unit_seconds <= 0:
            raise InputError("correction must be above 1, clip and unit_seconds above 0")
        if not 0 < self.trust <= 1:
            raise InputError(f"trust is {self.trust}: give the network's weight in a prediction, above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class LossSettings:
    """Weights of the terms of the loss (`autosched.model.architecture.loss`).

    Attributes:
        throughput: Squared error of the throughput, relative to the pipeline's best (the paper's loss).
        time: Error of the logarithm of the pipeline's time.
        order: Pairwise ranking error of a pipeline's schedules.
        kernel: Error of the logarithm of each kernel's time.
        resources: Errors of registers and spilled bytes.
        negative: Penalty for negative coefficients before the ReLU (1e-5 in the paper's code).
    """

    throughput: float = 0.3
    time: float = 0.3
    order: float = 0.3
    kernel: float = 1.0
    resources: float = 0.05
    negative: float = 1e-5


@dataclass(frozen=True, slots=True)
class OptimiserSettings:
    """Settings of the optimiser.

    Attributes:
        learning_rate: Adam's initial step size, with cosine decay to 0.
        betas: Adam's decay rates.
        epsilon: Adam's denominator offset (1e-5 in the paper's code).
        weight_decay: Decoupled weight decay.
        epochs: Most passes over the training set.
        patience: Passes without a better validation error before early stopping.
        schedules: Most schedules of one pipeline in a step (64 in the paper's code).
        pipelines: Pipelines of a step.
        apps: Repetitions of the apps' schedules in a pass; random pipelines occur once.
        seed: Seed of initial weights, order and split.
        threads: Threads of PyTorch.
    """

    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-5
    weight_decay: float = 0.1
    epochs: int = 60
    patience: int = 15
    schedules: int = 64
    pipelines: int = 8
    apps: int = 1
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        if min(self.epochs, self.patience, self.pipelines, self.apps, self.threads) < 1 or self.schedules < 2:
            raise InputError("epochs, patience, pipelines, apps and threads must be at least 1, schedules at least 2")


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """All settings of a training run.

    Attributes:
        model: Shape of the network.
        loss: Terms of the loss.
        optimiser: Settings of the optimiser.
    """

    model: ModelSettings = field(default_factory=ModelSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
