"""Generation of random pipelines: add stages, combine unread tensors into outputs, check the limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError
from autosched.lang.expr import Scalar
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline, producers_of
from autosched.random_pipelines.alignment import resampled_to_shape
from autosched.random_pipelines.expressions import expression
from autosched.random_pipelines.families import FAMILIES
from autosched.random_pipelines.graph import Graph, InputRange
from autosched.random_pipelines.portable_random import PortableRandom
from autosched.random_pipelines.settings import DOUBLE, FAMILY_WEIGHTS, RandomPipelineSettings
from autosched.random_pipelines.stages import KINDS
from autosched.random_pipelines.tensor import Tensor
from autosched.random_pipelines.workload_counts import (
    computed_funcs,
    func_bytes,
    input_bytes,
    total_evaluations,
    total_operations,
)

ATTEMPTS = 60
"""Pipelines tried for a seed; nearly all of the first are within the limits."""
TRIES = 30
"""Kinds tried for one stage before the pipeline is complete."""
FURTHER_IMAGES = (0.6, 0.25, 0.1, 0.05)
"""Probabilities of one to four inputs that stages may choose among from the start."""


@dataclass(frozen=True)
class RandomPipeline:
    """A pipeline with shapes, parameters and input ranges.

    Attributes:
        pipeline: The pipeline.
        shapes: Shapes of its inputs, by name.
        params: Values of its run-time parameters, by name.
        seed: Its seed.
        kinds: The kinds of its stages, in order, after the name of its idiom's family, if it has one.
        ranges: Shapes and ranges of its inputs, by name.
        family: Name of its family, after ``double_precision`` and a space if real numbers are float64; empty for a
            pipeline of stages drawn by kind.
    """

    pipeline: Pipeline
    shapes: Mapping[str, tuple[int, ...]]
    params: Mapping[str, Scalar]
    seed: int
    kinds: tuple[str, ...]
    ranges: Mapping[str, InputRange] = field(repr=False)
    family: str = ""

    def bind(self) -> BoundPipeline:
        """Return the pipeline bound to its shapes and parameters."""
        return bind(self.pipeline, self.shapes, self.params)

    def inputs(self, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Return an array for each input with uniformly distributed values of its range."""
        return {i.name: _random_array(rng, i, self.ranges[i.name]) for i in self.pipeline.inputs}


def random_pipeline(seed: int, settings: RandomPipelineSettings | None = None) -> RandomPipeline:
    """Return the random pipeline of a seed: the same one on every machine.

    Args:
        seed: A number from 0.
        settings: Distribution and limits.

    Raises:
        InputError: If no pipeline of this seed is within the limits.
    """
    settings = settings or RandomPipelineSettings()
    family = family_of_seed(seed, settings)
    for attempt in range(ATTEMPTS):
        draw = PortableRandom(np.random.default_rng([seed, attempt]))
        pipeline = _draw_pipeline(draw, settings, seed, family)
        if pipeline is not None and _is_within(pipeline.bind(), settings):
            return pipeline
    raise InputError(
        f"no random pipeline of seed {seed} is within the limits after {ATTEMPTS} attempts: raise max_points, "
        "max_bytes or max_operations, or lower extents and channels"
    )


def family_of_seed(seed: int, settings: RandomPipelineSettings) -> str:
    """Return the family of a seed's pipeline without generating it; see `RandomPipeline`."""
    if not settings.families:
        return ""
    draw = PortableRandom(np.random.default_rng([seed, ATTEMPTS]))  # attempts have the lower numbers
    name = draw.weighted(settings.families)
    if name != DOUBLE:
        return name
    idioms = {k: w for k, w in settings.families.items() if k != DOUBLE}
    if sum(idioms.values()) == 0:
        idioms = {k: w for k, w in FAMILY_WEIGHTS.items() if k != DOUBLE}
    return f"{DOUBLE} {draw.weighted(idioms)}"


def distinct_pipelines(
    seeds: Iterable[int], settings: RandomPipelineSettings | None = None, seen: Iterable[str] = ()
) -> Iterator[RandomPipeline]:
    """Yield the pipelines of seeds, without pipelines whose hash has occurred before.

    Args:
        seeds: The seeds, in order.
        settings: Distribution and limits.
        seen: Hashes of existing pipelines.

    Raises:
        InputError: As `random_pipeline`.
    """
    hashes = set(seen)
    for seed in seeds:
        drawn = random_pipeline(seed, settings)
        if drawn.pipeline.hash not in hashes:
            hashes.add(drawn.pipeline.hash)
            yield drawn


def _draw_pipeline(
    draw: PortableRandom, settings: RandomPipelineSettings, seed: int, family: str
) -> RandomPipeline | None:
    """Return a pipeline, None if no kind of stage fits its first input, or its family does not fit the limits."""
    g = Graph(draw, settings)
    kinds: list[str] = []
    *precision, idiom = family.split(" ")
    if idiom:
        g.real = "float64" if precision else "float32"
        if FAMILIES[idiom].build(g) is None:
            return None
        kinds.append(idiom)
    else:
        first = g.add_image()
        for _ in range(draw.weighted(dict(enumerate(FURTHER_IMAGES)))):
            g.add_image(first.dims, first.shape)
    low, high = settings.stages
    u = draw.fraction()
    count = low + int((high - low + 1) * (u + u * u) / 2)
    if idiom:
        count += g.stages - 1
    while g.stages < count:
        name = _next_kind(g, kinds)
        if name is None:
            break
        kinds.append(name)
    if not kinds:
        return None
    most = draw.weighted({k + 1: p for k, p in enumerate(settings.outputs)})
    outputs = _unread(g) if idiom and FAMILIES[idiom].all_outputs else _outputs(g, most)
    pipeline = Pipeline([_over(t) for t in outputs], name=f"random_{seed}")
    names = [i.name for i in pipeline.inputs]
    ranges = {n: g.inputs[n] for n in names}
    params = {p.name: g.params[p.name] for p in pipeline.params}
    shapes = {n: r.shape for n, r in ranges.items()}
    return RandomPipeline(pipeline, shapes, params, seed, tuple(kinds), ranges, family)


def _next_kind(g: Graph, kinds: list[str]) -> str | None:
    """Add a stage of a kind that often follows the last one, or of any kind; return the kind, None if none fits."""
    weights = g.settings.kinds
    last = KINDS.get(kinds[-1]) if kinds else None  # None after a family
    likely = {k: p for k, p in last.then.items() if weights.get(k)} if last else {}
    for _ in range(TRIES):
        follows = g.draw.fraction()
        name = next((k for k, p in likely.items() if (follows := follows - p) < 0), None)
        name = name or g.draw.weighted(weights)
        if KINDS[name].build(g) is not None:
            return name
    return None


def _outputs(g: Graph, count: int) -> list[Tensor]:
    """Return at most ``count`` outputs; they read all other tensors without readers."""
    outputs = _unread(g)
    while len(outputs) > count:
        outputs.sort(key=lambda t: (len(t.dims), t.points))  # a stable sort
        smallest, *rest = outputs
        outputs = [*rest[:-1], _combined(g, rest[-1], smallest)]
    return outputs


def _combined(g: Graph, t: Tensor, other: Tensor) -> Tensor:
    """Return a random formula of two tensors, at the points of the first."""
    values = [t.at(), resampled_to_shape(g, other, t.extents)]
    value = expression(g.draw, values, operations=g.draw.integer(0, 2), functions=0.1)
    return g.add_stage("joined", t.extents, value)


def _unread(g: Graph) -> list[Tensor]:
    """Return the Funcs among the tensors without readers, one component of each tuple."""
    read: set[Func | Input] = set()
    pending: list[Func | Input] = [t.source for t in g.tensors]
    visited: set[Func | Input] = set()
    while pending:
        source = pending.pop()
        if source in visited or not isinstance(source, Func):
            continue
        visited.add(source)
        producers = producers_of(source)
        read.update(producers)
        pending.extend(producers)
    unread = {t.source: t for t in g.tensors if isinstance(t.source, Func) and t.source not in read}
    return list(unread.values())


def _over(t: Tensor) -> Any:
    assert isinstance(t.source, Func)
    return t.source.over(**{d: (0, n) for d, n in t.extents.items()})


def _is_within(bound: BoundPipeline, settings: RandomPipelineSettings) -> bool:
    """Return whether a pipeline is within the limits, with its required regions."""
    funcs = list(computed_funcs(bound))
    return (
        all(prod(f.extents) <= settings.max_points for f in funcs)
        and input_bytes(bound) + sum(map(func_bytes, funcs)) <= settings.max_bytes
        and max(total_operations(bound), total_evaluations(bound)) <= settings.max_operations
    )


def _random_array(rng: np.random.Generator, i: Input, given: InputRange) -> NDArray[Any]:
    kind = i.dtype.numpy
    if i.dtype.is_float:
        values = rng.random(given.shape, dtype=np.float32) * np.float32(given.high - given.low) + np.float32(given.low)
        return np.asarray(values, order="C").astype(kind)
    return rng.integers(int(given.low), int(given.high), given.shape, dtype=np.int64, endpoint=True).astype(kind)
