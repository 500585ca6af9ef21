"""Weights in safetensors files, with all settings that are needed to use them, and no executable content."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from autosched._version import __version__
from autosched.atomic_files import replace_file
from autosched.errors import InputError, shortened
from autosched.featurize import schema
from autosched.model.architecture.ensemble import Network, network_of
from autosched.model.predict.prior_version import prior_version
from autosched.model.settings import ModelSettings
from autosched.schedule.io.strict_json import Node, parse
from autosched.schedule.io.typed_json import read_as
from autosched.target import Target

FORMAT = "autosched-model"
VERSION = 1
LARGEST_FILE = 1 << 28
_TRAIN = "python scripts/train.py data.path=LABELS target={target} output=DIRECTORY"
_RETRAIN = f"train a new one with `{_TRAIN.format(target='TARGET')}`"


@dataclass(frozen=True)
class WeightsProvenance:
    """Provenance of weights.

    Attributes:
        target: The device of the training data's schedules.
        source: Source of the labels: ``measured:<device>`` or ``simulated:<device>@<version>``.
        data: Summary of the training data, for users.
        held_out: Families of held-out pipelines.
        apps: Suite apps in the training data; for these a model is better than for a user's pipeline.
        metrics: Figures on held-out pipelines, by name.
        least_share: Lower bound of predicted over analytical time (`autosched.model.predict.prediction_trust`).
    """

    target: Target
    source: str
    data: str = ""
    held_out: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    least_share: float = 0.0


@dataclass(frozen=True)
class Document:
    """Metadata of a file of weights; see `WeightsProvenance`.

    Attributes:
        version: Version of the format.
        schema_version: Version of the features.
        prior_version: Version of the analytical times.
        features: Names of the features.
        settings: Shape of the network.
        target: The device.
        source: Source of the labels.
        data: Summary of the training data.
        held_out: Held-out families.
        apps: Suite apps in the training data.
        metrics: Figures on held-out pipelines.
        least_share: Lower bound of predicted over analytical time; optional.
        autosched: The release that wrote the file.
    """

    version: int
    schema_version: int
    prior_version: str
    features: tuple[str, ...]
    settings: ModelSettings
    target: Target
    source: str
    data: str
    held_out: tuple[str, ...]
    apps: tuple[str, ...]
    metrics: Mapping[str, Any]
    least_share: float = 0.0
    autosched: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """A network with its weights.

    Attributes:
        network: The network, float32.
        settings: The shape of the network.
        provenance: The provenance of the weights.
        path: The file of the weights.
    """

    network: Network
    settings: ModelSettings
    provenance: WeightsProvenance
    path: Path


def save_checkpoint(
    path: str | os.PathLike[str], network: Network, settings: ModelSettings, provenance: WeightsProvenance
) -> None:
    """Write weights atomically.

    Raises:
        InputError: The file cannot be written, or a weight is not finite.
    """
    write_tensors(Path(path), dict(network.state_dict()), document_of(settings, provenance))


def document_of(settings: ModelSettings, provenance: WeightsProvenance) -> dict[str, Any]:
    """Return the metadata of a file of weights."""
    return {
        "version": VERSION,
        "schema_version": schema.SCHEMA_VERSION,
        "prior_version": prior_version(provenance.target.kind, provenance.target.processor),
        "features": list(schema.NAMES),
        "settings": asdict(settings),
        "target": asdict(provenance.target),
        "source": provenance.source,
        "data": provenance.data,
        "held_out": list(provenance.held_out),
        "apps": list(provenance.apps),
        "metrics": dict(provenance.metrics),
        "least_share": provenance.least_share,
        "autosched": __version__,
    }


def write_tensors(path: Path, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
    """Write tensors with metadata.

    Raises:
        InputError: The file cannot be written, or a value is not finite.
    """
    _check_finite(path, tensors)
    metadata = {"document": json.dumps({"format": FORMAT, **document})}  # one entry, as the order of several varies
    contiguous = {name: t.detach().contiguous() for name, t in tensors.items()}
    try:
        content = save(contiguous, metadata)  # save_file would make a file that other users cannot read
        replace_file(path, lambda beside: beside.write_bytes(content))
    except (OSError, SafetensorError) as e:
        raise InputError(f"cannot write weights to {path}: {e}; choose another path") from e


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a file and its metadata.

    Raises:
        InputError: The file is missing, truncated, no file of weights, made for other features, or has values that are
            not finite.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path} has more than {LARGEST_FILE >> 20} MiB, so it holds no weights; {_RETRAIN}")
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 -- file is no mapping
    except OSError as e:
        raise InputError(f"cannot read weights from {path}: {e.strerror or e}; {_RETRAIN}") from e
    except SafetensorError as e:
        raise InputError(f"{path} is damaged or no file of weights ({e}); {_RETRAIN}") from e
    if "document" not in metadata:
        raise InputError(f"{path} has no metadata of its weights (no entry 'document'); {_RETRAIN}")
    top = parse(metadata["document"], f"the metadata of {path}", InputError, _RETRAIN)
    read_document(path, top, metadata.get("format"))
    document: dict[str, Any] = json.loads(metadata["document"])
    _check_finite(path, tensors)
    return tensors, document


def read_document(path: Path, top: Node, outer_format: str | None = None) -> Document:
    """Return the checked metadata of a file of weights.

    Args:
        path: The file, for messages.
        top: The JSON.
        outer_format: The format, if it is an entry of its own beside the JSON.

    Raises:
        InputError: A value is missing or has another type, or the weights are for other features.
    """
    fields = top.mapping()
    format_ = outer_format or (fields["format"].value if "format" in fields else None), _value(fields, "version")
    if format_ != (FORMAT, VERSION):
        raise InputError(
            f"{path} has format {shortened(format_[0])}, version {shortened(format_[1])}, not {FORMAT!r}, {VERSION}; "
            f"{_RETRAIN}"
        )
    target = read_as(top.fields_of("target")[0], Target)
    versions = _value(fields, "schema_version"), _value(fields, "prior_version")
    expected = schema.SCHEMA_VERSION, prior_version(target.kind, target.processor)
    if versions != expected or _value(fields, "features") != list(schema.NAMES):
        raise InputError(
            f"{path} was trained on features of version {shortened(versions[0])} and analytical times of version "
            f"{shortened(versions[1])}; this release has {expected[0]} and {expected[1]}: train a new one with "
            f"`{_TRAIN.format(target=''.join(target.name.lower().split()))}`"
        )
    document = read_as(top.without("format"), Document, newer=True)
    for name, value in document.metrics.items():
        if not isinstance(value, int | float) or isinstance(value, bool):  # NaN is a valid metric
            raise fields["metrics"].part(value, name).error(f"is {shortened(value)}: give a number")
    return document


def _value(fields: Mapping[str, Node], key: str) -> object:
    return fields[key].value if key in fields else None


def load_checkpoint(path: str | os.PathLike[str], target: Target | None = None) -> Checkpoint:
    """Return a network with the weights of a file.

    Args:
        path: A file of `save_checkpoint`.
        target: The device to predict for; by default the device of the training data.

    Raises:
        InputError: As `read_tensors`, or weights are missing or have other shapes than in the settings.
    """
    path = Path(path)
    tensors, metadata = read_tensors(path)
    document = read_document(path, Node(metadata, "", f"the metadata of {path}", InputError, _RETRAIN), FORMAT)
    settings = document.settings
    provenance = WeightsProvenance(
        document.target, document.source, document.data, document.held_out, document.apps,
        {name: float(value) for name, value in document.metrics.items()}, document.least_share,
    )  # fmt: skip
    chosen = target or provenance.target
    if chosen.kind != provenance.target.kind:
        raise InputError(
            f"{path} was trained for {provenance.target.name} ({provenance.target.kind}), not for a {chosen.kind} "
            f"device like {chosen.name}; {_RETRAIN}"
        )
    network = network_of(settings, chosen)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as e:
        raise InputError(f"the weights of {path} do not fit its settings: {e}; {_RETRAIN}") from e
    network.requires_grad_(False)
    return Checkpoint(network.eval(), settings, provenance, path)


def _check_finite(path: Path, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise InputError(f"weights {name!r} of {path} are not finite numbers; {_RETRAIN}")
