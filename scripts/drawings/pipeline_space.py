"""A picture of pipelines in the space of their workload features, and distances of programs to random pipelines.

The picture shows the two principal components. The table has the distance of each app of the suite, and of each
pipeline of a folder, to the nearest random pipeline, in standard deviations of the features.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.registry import NAMES, get_app
from autosched.errors import InputError
from autosched.random_pipelines import RandomPipelineSettings, distinct_pipelines
from autosched.random_pipelines.workload_vector import workload_vector

Vectors = NDArray[np.float64]

BEFORE, AFTER, SUITE, USERS = "random, by stages alone", "random, by families", "suite", "users"
COLOURS = {BEFORE: "#b8c4d6", AFTER: "#f0a860", SUITE: "#1f5fa8", USERS: "#b01030"}
SIZES = {BEFORE: 8, AFTER: 8, SUITE: 26, USERS: 34}


@dataclass(frozen=True)
class PipelineSpace:
    """Pipelines as standardised vectors.

    Attributes:
        names: Names of the pipelines of each source.
        vectors: ``[pipelines, features]`` of each source: mean 0 and standard deviation 1 over all sources.
    """

    names: Mapping[str, tuple[str, ...]]
    vectors: Mapping[str, Vectors]

    @classmethod
    def of(cls, given: Mapping[str, Mapping[str, Vectors]]) -> PipelineSpace:
        """Return the space of vectors by source and name."""
        everything = np.array([v for source in given.values() for v in source.values()])
        mean, deviation = everything.mean(axis=0), everything.std(axis=0)
        deviation[deviation == 0] = 1.0
        vectors = {s: (np.array(list(named.values())) - mean) / deviation for s, named in given.items()}
        return cls({s: tuple(named) for s, named in given.items()}, vectors)

    def components(self) -> tuple[dict[str, Vectors], Vectors]:
        """Return the two principal components, ``[pipelines, 2]`` by source, and the share of variance of each."""
        everything = np.concatenate(list(self.vectors.values()))
        _, values, axes = np.linalg.svd(everything, full_matrices=False)
        shares = values[:2] ** 2 / (values**2).sum()
        return {s: v @ axes[:2].T for s, v in self.vectors.items()}, shares

    def distances(self, source: str, others: Vectors) -> Vectors:
        """Return the distance of each pipeline of a source to the nearest of others, ``[pipelines]``."""
        away = self.vectors[source][:, None, :] - others[None, :, :]
        nearest: Vectors = np.sqrt((away**2).sum(axis=2)).min(axis=1)
        return nearest


def pipeline_space(
    count: int, standard: RandomPipelineSettings, users: RandomPipelineSettings, folder: Path | None
) -> PipelineSpace:
    """Return the space of random pipelines of two settings, the suite, and the pipelines of a folder."""
    given: dict[str, dict[str, Vectors]] = {
        BEFORE: _random_vectors(count, standard),
        AFTER: _random_vectors(count, users),
        SUITE: {name: workload_vector(_bound_app(name)) for name in NAMES},
    }
    if folder is not None:
        given[USERS] = {name: workload_vector(bound) for name, bound in user_pipelines(folder)}
    return PipelineSpace.of(given)


def distance_table(space: PipelineSpace) -> str:
    """Return distances to as many random pipelines without families, and with families for one half, as Markdown."""
    before, after = space.vectors[BEFORE], space.vectors[AFTER]
    half = min(len(before), len(after)) // 2
    mixed = np.concatenate([before[:half], after[:half]])
    without = before[: 2 * half]
    sources = [s for s in (SUITE, USERS) if s in space.vectors]
    pairs = {s: (space.distances(s, without), space.distances(s, mixed)) for s in sources}
    lines = [
        f"| distance to the nearest of {2 * half} random pipelines | without families | a half by families |",
        "|---|---|---|",
    ]
    for source, (old, new) in pairs.items():
        for name, figure in (("median", np.median), ("worst", np.max)):
            lines.append(f"| {source}, {name} | {figure(old):.2f} | {figure(new):.2f} |")
    lines += ["", "| pipeline | without families | a half by families |", "|---|---|---|"]
    for source, (old, new) in pairs.items():
        for name, a, b in sorted(zip(space.names[source], old, new, strict=True), key=lambda row: -row[1]):
            lines.append(f"| {name} | {a:.2f} | {b:.2f} |")
    return "\n".join(lines) + "\n"


def draw_space(space: PipelineSpace, path: Path) -> None:
    """Draw the two principal components, coloured by source.

    Raises:
        InputError: matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as e:
        raise InputError(f"the picture needs matplotlib ({e}); install autosched[report]") from e
    points, shares = space.components()
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots()
    for source, place in points.items():
        axes.scatter(*place.T, s=SIZES[source], c=COLOURS[source], label=f"{source} ({len(place)})", linewidths=0)
    axes.set_xlabel(f"first principal component ({shares[0]:.0%} of the variance)")
    axes.set_ylabel(f"second principal component ({shares[1]:.0%} of the variance)")
    axes.legend(loc="best", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def user_pipelines(folder: Path) -> Iterable[tuple[str, BoundPipeline]]:
    """Yield the pipelines of a folder, bound to the shapes of their inputs.

    The folder has a module ``common`` with a list ``CASES``, to which its modules ``p*.py`` append cases: ``name``,
    ``build`` (returns a pipeline), ``inputs`` (arrays by name) and ``params``.

    Raises:
        InputError: The folder has no such module.
    """
    if not (folder / "common.py").is_file():
        raise InputError(f"{folder} has no common.py with a list CASES: give a folder of pipelines in that form")
    sys.path.insert(0, str(folder))
    try:
        cases: list[Any] = importlib.import_module("common").CASES
        for path in sorted(folder.glob("p*.py")):
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None and spec.loader is not None
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
    finally:
        sys.path.remove(str(folder))
    for case in cases:
        shapes = {name: array.shape for name, array in case.inputs.items()}
        yield case.name, bind(case.build(), shapes, case.params)


def _random_vectors(count: int, settings: RandomPipelineSettings) -> dict[str, Vectors]:
    return {f"{p.family} {p.seed}": workload_vector(p.bind()) for p in distinct_pipelines(range(count), settings)}


def _bound_app(name: str) -> BoundPipeline:
    app = get_app(name)
    pipeline, params = app.configure({})
    return bind(pipeline, app.shapes(app.sizes({})), params)
