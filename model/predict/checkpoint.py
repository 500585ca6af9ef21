"""Weights in files: safetensors with everything that is needed to use them, and nothing that is run when read."""

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
_UNSAID = ", which does not say what its weights are for"
_RETRAIN = "train a new one with scripts/train.py"


@dataclass(frozen=True)
class WeightsProvenance:
    """Where weights come from.

    Attributes:
        target: The device that the schedules were made for.
        source: Where the labels come from: ``measured:<device>`` or ``simulated:<device>@<version>``.
        data: What they were trained on, for people.
        held_out: Families of pipelines that were held out.
        apps: Suite apps that were not held out; of these a model knows more than of a user's pipeline.
        metrics: How well they do on pipelines that were held out, by name.
        least_share: Share of its analytical time below which no kernel is predicted
            (`autosched.model.predict.prediction_trust`).
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
    """What a file says about its weights; see `WeightsProvenance`.

    Attributes:
        version: Of the format.
        schema_version: Of the features.
        prior_version: Of the analytical times.
        features: Names of the features.
        settings: Shape of the network.
        target: The device.
        source: Where the labels come from.
        data: What it was trained on.
        held_out: Families that were held out.
        apps: Suite apps that were not.
        metrics: How well it does.
        least_share: Files of earlier releases have none.
        autosched: The release that wrote it.
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
        settings: Its shape.
        provenance: Where its weights come from.
        path: The file it was read from.
    """

    network: Network
    settings: ModelSettings
    provenance: WeightsProvenance
    path: Path


def save_checkpoint(
    path: str | os.PathLike[str], network: Network, settings: ModelSettings, provenance: WeightsProvenance
) -> None:
    """Write weights; the file is replaced whole or not at all.

    Raises:
        InputError: The file cannot be written, or a weight is not finite.
    """
    write_tensors(Path(path), dict(network.state_dict()), document_of(settings, provenance))


def document_of(settings: ModelSettings, provenance: WeightsProvenance) -> dict[str, Any]:
    """Return what a file says about its weights."""
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
    """Write tensors and what the file says about them.

    Raises:
        InputError: The file cannot be written, or a value is not finite.
    """
    _check_finite(path, tensors)
    metadata = {"document": json.dumps({"format": FORMAT, **document})}  # of several entries the order is not kept
    own = {name: t.detach().contiguous() for name, t in tensors.items()}
    try:
        content = save(own, metadata)  # save_file would make a file that other users cannot read
        replace_file(path, lambda beside: beside.write_bytes(content))
    except (OSError, SafetensorError) as e:
        raise InputError(f"cannot write weights to {path}: {e}; choose another path") from e


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a file and what it says about them.

    Raises:
        InputError: The file is not there, truncated, no file of weights, made for other features, or holds values that
            are not finite.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path} has more than {LARGEST_FILE >> 20} MiB, so it holds no weights; {_RETRAIN}")
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 -- it is no mapping
    except OSError as e:
        raise InputError(f"cannot read weights from {path}: {e.strerror or e}; {_RETRAIN}") from e
    except SafetensorError as e:
        raise InputError(f"{path} is damaged or no file of weights ({e}); {_RETRAIN}") from e
    if "document" not in metadata:
        raise InputError(f"{path} does not say what its weights are for: it has no document; {_RETRAIN}")
    top = parse(metadata["document"], f"{path}{_UNSAID}", InputError, _RETRAIN)
    read_document(path, top, metadata.get("format"))
    document: dict[str, Any] = json.loads(metadata["document"])
    _check_finite(path, tensors)
    return tensors, document


def read_document(path: Path, top: Node, outer_format: str | None = None) -> Document:
    """Return what a file says about its weights, each value checked.

    Args:
        path: The file, for messages.
        top: The JSON.
        outer_format: The format where it stands beside the text, as in files of earlier releases.

    Raises:
        InputError: A value is missing or none of its kind, or the weights are for other features.
    """
    given = top.mapping()
    found = outer_format or (given["format"].value if "format" in given else None), _value(given, "version")
    if found != (FORMAT, VERSION):
        raise InputError(
            f"{path} has format {shortened(found[0])}, version {shortened(found[1])}, not {FORMAT!r}, {VERSION}; "
            f"{_RETRAIN}"
        )
    target = read_as(top.fields_of("target")[0], Target)
    versions = _value(given, "schema_version"), _value(given, "prior_version")
    expected = schema.SCHEMA_VERSION, prior_version(target.kind, target.processor)
    if versions != expected or _value(given, "features") != list(schema.NAMES):
        raise InputError(
            f"{path} was trained on features of version {shortened(versions[0])} and analytical times of version "
            f"{shortened(versions[1])}; this release has {expected[0]} and {expected[1]}: {_RETRAIN}"
        )
    document = read_as(top.without("format"), Document, newer=True)
    for name, value in document.metrics.items():
        if not isinstance(value, int | float) or isinstance(value, bool):  # NaN where there was nothing to judge by
            raise given["metrics"].part(value, name).error(f"is {shortened(value)}: give a number")
    versions = document.schema_version, document.prior_version
    expected = schema.SCHEMA_VERSION, prior_version(document.target.kind, document.target.processor)
    if versions != expected or document.features != schema.NAMES:
        raise InputError(
            f"{path} was trained on features of version {shortened(versions[0])} and analytical times of version "
            f"{shortened(versions[1])}; this release has {expected[0]} and {expected[1]}: {_RETRAIN}"
        )
    return document


def _value(given: Mapping[str, Node], key: str) -> object:
    return given[key].value if key in given else None


def load_checkpoint(path: str | os.PathLike[str], target: Target | None = None) -> Checkpoint:
    """Return a network with the weights of a file.

    Args:
        path: A file that `save_checkpoint` wrote.
        target: The device to predict for; the one it was trained for when left out.

    Raises:
        InputError: As `read_tensors`, or weights are missing or have other shapes than its settings say.
    """
    path = Path(path)
    tensors, found = read_tensors(path)
    document = read_document(path, Node(found, "", f"{path}{_UNSAID}", InputError, _RETRAIN), FORMAT)
    settings = document.settings
    provenance = WeightsProvenance(
        document.target, document.source, document.data, document.held_out, document.apps,
        {name: float(value) for name, value in document.metrics.items()}, document.least_share,
    )  # fmt: skip
    chosen = target or provenance.target
    if chosen.kind != provenance.target.kind:
        raise InputError(
            f"{path} was trained for {provenance.target.name}, which is no device like {chosen.name}; {_RETRAIN}"
        )
    network = network_of(settings, chosen)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as e:
        raise InputError(f"the weights of {path} do not fit its settings: {e}; {_RETRAIN}") from e
    network.requires_grad_(False)
    return Checkpoint(network.eval(), settings, provenance, path)


def target_from(fields: Mapping[str, Any]) -> Target:
    """Return the device that a file describes."""
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    return Target(**values)


def _check_finite(path: Path, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise InputError(f"weights {name!r} of {path} are not finite numbers; {_RETRAIN}")
