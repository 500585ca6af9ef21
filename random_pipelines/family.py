"""The families of pipelines by name: programs around one idiom, in the manner of users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.settings import FAMILY_WEIGHTS
from autosched.random_pipelines.tensor import Tensor

FamilyBuild = Callable[[Graph], Tensor | None]


@dataclass(frozen=True, slots=True)
class Family:
    """A family of pipelines.

    Attributes:
        name: Its name in the settings.
        build: Adds inputs and the stages of the idiom to an empty graph and returns its last tensor, None if the limits
            leave no room.
        all_outputs: Whether every tensor without readers is an output.
    """

    name: str
    build: FamilyBuild
    all_outputs: bool = False


FAMILIES: dict[str, Family] = {}
"""All families by name; complete once `autosched.random_pipelines.families` is imported."""


def family(name: str, *, all_outputs: bool = False) -> Callable[[FamilyBuild], FamilyBuild]:
    """Register a function as a family; see `Family` for its arguments."""

    def register(build: FamilyBuild) -> FamilyBuild:
        if name in FAMILIES or name not in FAMILY_WEIGHTS:
            raise ValueError(f"family {name!r} is there already, or has no weight in the settings")
        FAMILIES[name] = Family(name, build, all_outputs)
        return build

    return register
