"""Stable keys of schedules, kernels and emitted text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.io.serialise import to_document
from autosched.schedule.types import Schedule
from autosched.target import Target


def digest(*parts: str) -> str:
    """Return the SHA-256 of a sequence of texts, in hexadecimal."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def schedule_text(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return a schedule as one line of JSON; equal schedules have equal texts."""
    return json.dumps(to_document(bound, schedule), separators=(",", ":"))


def kernel_keys(bound: BoundPipeline, schedule: str, target: Target) -> tuple[str, ...]:
    """Return the key of each kernel's time, in launch order.

    Kernels with equal keys are the same computation on the same device, in any schedule. In a complete schedule a
    kernel reads only inputs and roots, whose layout follows from the pipeline and its shapes. So pipeline, shapes,
    target and the kernel itself determine the key.

    Args:
        bound: The pipeline with its shapes.
        schedule: One line of JSON, from `schedule_text`.
        target: The schedule's target.
    """
    document = json.loads(schedule)
    shared = [
        document["pipeline"],
        json.dumps({name: list(i.shape) for name, i in bound.inputs.items()}, sort_keys=True),
        json.dumps({name: repr(value) for name, value in bound.specialised.items()}, sort_keys=True),
        target.name,
        *(json.dumps(document[key]) for key in ("splits", "joins") if document.get(key)),
    ]
    return tuple(digest(*shared, json.dumps(k, sort_keys=True)) for k in document["kernels"])


def text_digest(sources: Iterable[str]) -> str:
    """Return one hash of all texts emitted for a schedule, in launch order."""
    return digest(*sources)
