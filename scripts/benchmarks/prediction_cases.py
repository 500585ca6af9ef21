"""Pipelines to compare predictions on: a folder of user pipelines, and suite apps."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from autosched import Pipeline
from autosched.apps import get_app
from autosched.lang.expr import Scalar

REGISTRY = "common.py"
"""Module of a folder that collects its pipelines in a list, ``CASES``."""
PATTERN = "p*.py"
"""Files of the pipelines; each registers one or more with ``common.check``."""


@dataclass(frozen=True)
class PredictionCase:
    """A pipeline with its inputs.

    Attributes:
        group: File or app that it comes from.
        name: Name in tables.
        pipeline: The pipeline.
        inputs: Its inputs by name.
        params: Values of its parameters.
    """

    group: str
    name: str
    pipeline: Pipeline
    inputs: Mapping[str, np.ndarray[Any, Any]]
    params: Mapping[str, Scalar]


def halves(names: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    """Return the names to improve predictions on, and the held-out half that a seed draws."""
    held_out = set(random.Random(seed).sample(sorted(names), len(names) // 2))
    return [n for n in sorted(names) if n not in held_out], sorted(held_out)


def files_of(folder: Path) -> list[str]:
    """Return the stems of a folder's pipeline files."""
    return sorted(path.stem for path in folder.glob(PATTERN))


def cases_of(folder: Path, stem: str) -> Iterator[PredictionCase]:
    """Yield the pipelines that a file of a folder registers.

    The folder has a module ``common`` with a list ``CASES``. Its entries have the attributes ``name``, ``build``
    (a function that returns the pipeline), ``inputs`` and ``params``.
    """
    registry = _load(folder / REGISTRY, "common")
    before = len(registry.CASES)
    _load(folder / f"{stem}.py", stem)
    for case in registry.CASES[before:]:
        yield PredictionCase(stem, case.name, case.build(), case.inputs, case.params)


def app_case(name: str) -> PredictionCase:
    """Return a suite app at the size of the coefficients' fits."""
    from calibration.samples import SIZES  # the folder's pipelines need none of its imports

    app = get_app(name)
    pipeline, _ = app.configure({})
    params: dict[str, Scalar] = {p.name: p.default for p in pipeline.params if p.default is not None}
    return PredictionCase(name, name, pipeline, app.make_inputs(SIZES[name]), params)


def _load(path: Path, name: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be imported: give a folder with {REGISTRY} and pipelines {PATTERN}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
