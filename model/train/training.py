"""Training of a network: Adam, early stopping, and checkpoints that resume exactly."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autosched.errors import InputError
from autosched.model.architecture.loss import LossLabels, total_loss
from autosched.model.architecture.network import CostNetwork
from autosched.model.data.batches import Batches, steps
from autosched.model.data.dataset import Dataset
from autosched.model.data.holdout import HoldoutSplit, Ints
from autosched.model.data.ragged import KernelBatch
from autosched.model.predict.checkpoint import WeightsProvenance, document_of, read_tensors, write_tensors
from autosched.model.settings import TrainSettings
from autosched.model.train.torch_threads import torch_threads
from autosched.schedule.io.strict_json import Node

MOST_EPOCHS = 10**9
STATE_FILE = "last.safetensors"
RANDOM = "random "
"""Prefix of the families of random pipelines; all other families are apps."""
SMALL_GRADIENT = 1.0
"""Largest norm of a gradient, which limits the effect of an outlier."""


@dataclass(frozen=True)
class EpochReport:
    """Report of one pass over the training set.

    Attributes:
        epoch: Number of the pass, from 1.
        epochs: Most passes.
        training: Mean of each term of the loss over the steps.
        validation: The terms over the validation set.
        error: Their weighted sum over the validation set, for early stopping.
        best: The least such error so far.
        learning_rate: Adam's step size in this pass.
    """

    epoch: int
    epochs: int
    training: Mapping[str, float]
    validation: Mapping[str, float]
    error: float
    best: float
    learning_rate: float


@dataclass
class Progress:
    """Progress of a training.

    Attributes:
        epoch: Finished passes.
        best: Least validation error.
        best_epoch: The pass with that error.
        weights: The weights after that pass.
    """

    epoch: int = 0
    best: float = math.inf
    best_epoch: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)


class Training:
    """One training run.

    Args:
        dataset: The data.
        split: Pipelines of training, validation and test.
        settings: Network, loss, optimiser.
        directory: Directory of the state after each pass; None writes no state.
        resume: Whether to resume from the state in the directory, if there is one.

    Raises:
        InputError: The state has other data or settings, or its file cannot be used.
    """

    def __init__(
        self, dataset: Dataset, split: HoldoutSplit, settings: TrainSettings, *, directory: Path | None = None,
        resume: bool = False,
    ) -> None:  # fmt: skip
        self.dataset = dataset
        self.split = split
        self.settings = settings
        self.batches = Batches(dataset)
        self.progress = Progress()
        self._path = directory / STATE_FILE if directory else None
        with torch.random.fork_rng():
            torch.manual_seed(settings.optimiser.seed)
            self.network = CostNetwork(settings.model, dataset.target)
        self.network.fit(self._kernels_of(split.training))
        o = settings.optimiser
        self.adam = torch.optim.AdamW(
            self.network.parameters(), lr=o.learning_rate, betas=o.betas, eps=o.epsilon, weight_decay=o.weight_decay
        )
        self._validation = self._parts(split.validation)
        if resume and self._path and self._path.exists():
            self._restore(self._path)

    @property
    def provenance(self) -> WeightsProvenance:
        """Provenance of the weights, without figures."""
        families = self.dataset.families
        held_out = sorted({families[p] for p in self.split.held_out})
        others = {families[p] for p in (*self.split.training, *self.split.validation)}
        apps = sorted(f for f in others if not f.startswith(RANDOM))
        data = self.dataset
        return WeightsProvenance(data.target, data.source, data.summary(), tuple(held_out), tuple(apps))

    def run(self, report: Callable[[EpochReport], None] | None = None) -> CostNetwork:
        """Train until early stopping or the last pass.

        Args:
            report: Called after each pass.

        Returns:
            The network with the weights of the least validation error.
        """
        o = self.settings.optimiser
        while self.progress.epoch < o.epochs and self.progress.epoch - self.progress.best_epoch < o.patience:
            with torch_threads(o.threads):
                epoch_report = self._epoch()
            self._save()
            if report is not None:
                report(epoch_report)
        self.network.load_state_dict(self.progress.weights)
        return self.network.eval()

    def _epoch(self) -> EpochReport:
        o, epoch = self.settings.optimiser, self.progress.epoch
        rng = np.random.default_rng([o.seed, epoch])  # independent of earlier passes, for exact resumption
        rate = o.learning_rate * (1 + math.cos(math.pi * epoch / o.epochs)) / 2
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.network.train()
        seen: list[dict[str, float]] = []
        for samples in steps(self.dataset, self.pipelines_of_a_pass(), o.schedules, o.pipelines, rng):
            kernels, labels = self.batches.batch(torch.from_numpy(samples))
            loss, terms = total_loss(self.network(kernels), labels, self.settings.loss)
            self.adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), SMALL_GRADIENT)
            self.adam.step()
            seen.append(terms)
        error, validation = self._validate()
        self.progress.epoch = epoch + 1
        if error < self.progress.best or not self.progress.weights:
            self.progress.best, self.progress.best_epoch = error, epoch + 1
            self.progress.weights = {name: t.detach().clone() for name, t in self.network.state_dict().items()}
        training = {name: float(np.mean([s[name] for s in seen])) for name in seen[0]}
        return EpochReport(epoch + 1, o.epochs, training, validation, error, self.progress.best, rate)

    def pipelines_of_a_pass(self) -> Ints:
        """Return the pipelines of a pass, with apps repeated."""
        pipelines, families = self.split.training, self.dataset.families
        apps = [p for p in pipelines.tolist() if not families[p].startswith(RANDOM)]
        return np.concatenate([pipelines, np.repeat(np.array(apps, np.int64), self.settings.optimiser.apps - 1)])

    @torch.no_grad()
    def _validate(self) -> tuple[float, dict[str, float]]:
        """Return the weighted error of the validation set and its terms."""
        self.network.eval()
        total, weight = 0.0, 0
        sums: dict[str, float] = {}
        for kernels, labels in self._validation:
            error, terms = total_loss(self.network(kernels), labels, self.settings.loss)
            n = len(labels.seconds)
            total, weight = total + float(error) * n, weight + n
            sums = {name: sums.get(name, 0.0) + value * n for name, value in terms.items()}
        if not math.isfinite(total):
            raise InputError("training diverged: the validation error is not finite; choose a smaller learning_rate")
        return total / weight, {name: value / weight for name, value in sums.items()}

    def _parts(self, pipelines: Any) -> list[tuple[KernelBatch, LossLabels]]:
        rng = np.random.default_rng(0)
        groups = steps(self.dataset, pipelines, self.settings.optimiser.schedules, 16, rng)
        return [self.batches.batch(torch.from_numpy(samples)) for samples in groups]

    def _kernels_of(self, pipelines: Any) -> KernelBatch:
        return self.batches.batch(torch.from_numpy(self.dataset.samples_of(pipelines)))[0]

    def _fingerprint(self) -> str:
        """Return a hash of data, split and settings, without settings that may change between calls."""
        settings = asdict(self.settings)
        for name in ("patience", "threads"):
            settings["optimiser"].pop(name)
        text = json.dumps([self.dataset.summary(), self.dataset.pipelines, settings], sort_keys=True)
        digest = hashlib.sha256(text.encode())
        for array in (self.split.training, self.split.validation, self.dataset.seconds):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def _save(self) -> None:
        if self._path is None:
            return
        tensors = {f"now.{name}": t for name, t in self.network.state_dict().items()}
        tensors |= {f"best.{name}": t for name, t in self.progress.weights.items()}
        for name, state in self._moments():
            tensors |= {f"adam.{name}.{key}": value.clone() for key, value in state.items()}
        document = document_of(self.settings.model, self.provenance) | {
            "fingerprint": self._fingerprint(),
            "epoch": self.progress.epoch,
            "best": self.progress.best,
            "best_epoch": self.progress.best_epoch,
        }
        write_tensors(self._path, tensors, document)

    def _restore(self, path: Path) -> None:
        tensors, document = read_tensors(path)
        if document.get("fingerprint") != self._fingerprint():
            raise InputError(f"{path} is the state of a run with other data or settings; delete it or start without it")

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}

        try:
            self.network.load_state_dict(part("now."))
            weights = part("best.")
            if set(weights) != set(self.network.state_dict()):
                raise KeyError("best weights")
            for name, parameter in self.network.named_parameters():
                self.adam.state[parameter] = _moments_of(parameter, part(f"adam.{name}."))
            top = Node(document, "", str(path), InputError, "delete it or start without it").mapping()
            epoch, best_epoch = (top[k].integer(0, MOST_EPOCHS) for k in ("epoch", "best_epoch"))
            self.progress = Progress(epoch, top["best"].number(), best_epoch, weights)
        except (KeyError, RuntimeError) as e:
            raise InputError(f"{path} is no state of a training run ({e}); delete it or start without it") from e

    def _moments(self) -> Iterator[tuple[str, dict[str, Tensor]]]:
        for name, parameter in self.network.named_parameters():
            if parameter in self.adam.state:
                yield name, self.adam.state[parameter]


def _moments_of(parameter: Tensor, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the saved state of Adam for a parameter.

    Raises:
        KeyError: If a tensor is missing or has another shape.
    """
    if not state:  # it has had no gradient yet
        return state
    for key in ("exp_avg", "exp_avg_sq"):
        if state[key].shape != parameter.shape:
            raise KeyError(key)
    if state["step"].numel() != 1 or not float(state["step"]) >= 0:
        raise KeyError("step")
    return state
