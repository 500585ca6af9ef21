"""The kinds of stages by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.settings import KIND_WEIGHTS
from autosched.random_pipelines.tensor import Tensor

Build = Callable[[Graph], Tensor | None]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of stage.

    Attributes:
        name: Its name in the settings.
        build: Adds a stage to a graph and returns its last tensor, None if no tensor of the graph is suitable.
        then: Probabilities of the kinds that often follow directly.
    """

    name: str
    build: Build
    then: Mapping[str, float] = field(default_factory=dict)


KINDS: dict[str, Kind] = {}
"""All kinds by name; complete once `autosched.random_pipelines.stages` is imported."""


def kind(name: str, **then: float) -> Callable[[Build], Build]:
    """Register a function as a kind of stage; see `Kind` for its arguments."""

    def register(build: Build) -> Build:
        if name in KINDS or name not in KIND_WEIGHTS or set(then) - set(KIND_WEIGHTS):
            raise ValueError(f"kind {name!r} is there already, or it or one that follows has no weight in the settings")
        KINDS[name] = Kind(name, build, then)
        return build

    return register
