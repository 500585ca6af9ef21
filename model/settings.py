"""What a cost model looks like and how it is trained; nothing here needs PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from autosched.errors import InputError

Form = Literal["paper", "timed"]
"""How coefficients become times: `paper` as Anderson's Appendix B, `timed` as corrections of the analytical model."""

WIDEST = 4096
"""Widest layer, so that a file of weights cannot ask for all memory."""
MOST_MEMBERS = 16


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Shape of the network.

    Attributes:
        form: ``paper`` multiplies coefficients with the cost components of Appendix B, stage by stage; ``timed``
            corrects what the analytical model says each unit of the device needs, kernel by kernel.
        algorithm_width: Length of the embedding of algorithm features (8 in the paper's code).
        schedule_width: Length of the embedding of schedule features (24 in the paper's code).
        hidden: Width of the layers between the embeddings and the coefficients of the form ``timed``.
        standardise: Whether features are shifted and scaled to mean 0 and deviation 1 over the training set.
        clip: Largest absolute value of a standardised feature, so that what training never saw stays in reach.
        correction: Largest factor by which ``timed`` makes a unit's time longer or shorter.
        unit_seconds: Seconds of one unit of cost of the form ``paper``.
        members: Networks of the form ``timed``, trained from other seeds, whose predictions are averaged.
        trust: How far predictions go from the analytical time to what the network says, in logarithms: 1 all the way
            (`autosched.model.predict.prediction_trust`). Training does not see it.
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
            raise InputError(f"trust is {self.trust}: give the network's share of a prediction, above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class LossSettings:
    """Weights of the terms of the loss (`autosched.model.architecture.loss`).

    Attributes:
        throughput: Squared error of the throughput relative to the pipeline's best (the paper's loss).
        time: Error of the logarithm of the pipeline's time.
        order: Errors in the order of a pipeline's schedules.
        kernel: Error of the logarithm of each kernel's time.
        resources: Errors of registers and spilled bytes.
        negative: Penalty for coefficients below zero before they are made positive (1e-5 in the paper's code).
    """

    throughput: float = 0.3
    time: float = 0.3
    order: float = 0.3
    kernel: float = 1.0
    resources: float = 0.05
    negative: float = 1e-5


@dataclass(frozen=True, slots=True)
class OptimiserSettings:
    """How weights are found.

    Attributes:
        learning_rate: Adam's step at the beginning; it falls to nothing along a cosine.
        betas: Adam's decay rates.
        epsilon: Adam's denominator offset (1e-5 in the paper's code).
        weight_decay: Share of the weights taken away in proportion to the step.
        epochs: Passes over the training set at most.
        patience: Passes without a better validation error before it stops early.
        schedules: Schedules of one pipeline that are compared in a step at most (64 in the paper's code).
        pipelines: Pipelines of a step.
        apps: How often a pass takes the schedules of apps; it takes those of random pipelines once.
        seed: Of initial weights, order and split.
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
    """Everything that a training run depends on besides its data.

    Attributes:
        model: Shape of the network.
        loss: Terms of the loss.
        optimiser: Steps.
    """

    model: ModelSettings = field(default_factory=ModelSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
