"""The driver: grows a graph stage by stage, joins loose ends, and checks the result against the limits."""

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
from autosched.random_pipelines.graph import Graph, InputRange
from autosched.random_pipelines.portable_random import PortableRandom
from autosched.random_pipelines.settings import RandomPipelineSettings
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
"""Kinds tried for one stage before the pipeline is left as it is."""
FURTHER_IMAGES = (0.6, 0.25, 0.1, 0.05)
"""Probabilities of one to four inputs that stages may choose among from the start."""


@dataclass(frozen=True)
class RandomPipeline:
    """A pipeline with all that is needed to bind and to call it.

    Attributes:
        pipeline: What to compute.
        shapes: Shapes of its inputs, by name.
        params: Values of its run-time parameters, by name.
        seed: The seed it was made from.
        kinds: The kinds of stages drawn, in order.
        ranges: What its inputs may hold, by name.
    """

    pipeline: Pipeline
    shapes: Mapping[str, tuple[int, ...]]
    params: Mapping[str, Scalar]
    seed: int
    kinds: tuple[str, ...]
    ranges: Mapping[str, InputRange] = field(repr=False)

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
    for attempt in range(ATTEMPTS):
        draw = PortableRandom(np.random.default_rng([seed, attempt]))
        found = _grown(draw, settings, seed)
        if found is not None and _is_within(found.bind(), settings):
            return found
    raise InputError(
        f"no random pipeline of seed {seed} is within the limits after {ATTEMPTS} attempts: raise max_points, "
        "max_bytes or max_operations, or lower extents and channels"
    )


def distinct_pipelines(
    seeds: Iterable[int], settings: RandomPipelineSettings | None = None, seen: Iterable[str] = ()
) -> Iterator[RandomPipeline]:
    """Yield the pipelines of seeds, leaving out those whose identity has occurred before.

    Args:
        seeds: The seeds, in order.
        settings: Distribution and limits.
        seen: Hashes of pipelines that there are already.

    Raises:
        InputError: As `random_pipeline`.
    """
    known = set(seen)
    for seed in seeds:
        found = random_pipeline(seed, settings)
        if found.pipeline.hash not in known:
            known.add(found.pipeline.hash)
            yield found


def _grown(draw: PortableRandom, settings: RandomPipelineSettings, seed: int) -> RandomPipeline | None:
    """Return a pipeline, or None if no kind of stage suits its first input."""
    g = Graph(draw, settings)
    first = g.add_image()
    for _ in range(draw.weighted(dict(enumerate(FURTHER_IMAGES)))):
        g.add_image(first.dims, first.shape)
    low, high = settings.stages
    u = draw.fraction()
    wanted = low + int((high - low + 1) * (u + u * u) / 2)
    kinds: list[str] = []
    while g.stages < wanted:
        name = _next_kind(g, kinds)
        if name is None:
            break
        kinds.append(name)
    if not kinds:
        return None
    count = draw.weighted({k + 1: p for k, p in enumerate(settings.outputs)})
    outputs = _joined_ends(g, count)
    pipeline = Pipeline([_over(t) for t in outputs], name=f"random_{seed}")
    names = [i.name for i in pipeline.inputs]
    ranges = {n: g.inputs[n] for n in names}
    params = {p.name: g.params[p.name] for p in pipeline.params}
    return RandomPipeline(pipeline, {n: r.shape for n, r in ranges.items()}, params, seed, tuple(kinds), ranges)


def _next_kind(g: Graph, kinds: list[str]) -> str | None:
    """Add a stage of a kind that often follows the last one, or of any kind; return which, or None if none fits."""
    weights = g.settings.kinds
    likely = {k: p for k, p in KINDS[kinds[-1]].then.items() if weights.get(k)} if kinds else {}
    for _ in range(TRIES):
        follows = g.draw.fraction()
        name = next((k for k, p in likely.items() if (follows := follows - p) < 0), None)
        name = name or g.draw.weighted(weights)
        if KINDS[name].build(g) is not None:
            return name
    return None


def _joined_ends(g: Graph, count: int) -> list[Tensor]:
    """Return at most so many tensors to be the outputs; others that no stage reads are joined with them."""
    ends = _unread(g)
    while len(ends) > count:
        ends.sort(key=lambda t: (len(t.dims), t.points))  # a stable sort
        smallest, *rest = ends
        ends = [*rest[:-1], _joined(g, rest[-1], smallest)]
    return ends


def _joined(g: Graph, t: Tensor, other: Tensor) -> Tensor:
    """Return a random formula of two tensors, at the points of the first."""
    values = [t.at(), resampled_to_shape(g, other, t.extents)]
    value = expression(g.draw, values, operations=g.draw.integer(0, 2), functions=0.1)
    return g.add_stage("joined", t.extents, value)


def _unread(g: Graph) -> list[Tensor]:
    """Return the Funcs among the tensors that no other stage reads, one for each tuple."""
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
    ends = {t.source: t for t in g.tensors if isinstance(t.source, Func) and t.source not in read}
    return list(ends.values())


def _over(t: Tensor) -> Any:
    assert isinstance(t.source, Func)
    return t.source.over(**{d: (0, n) for d, n in t.extents.items()})


def _is_within(bound: BoundPipeline, settings: RandomPipelineSettings) -> bool:
    """Return whether a pipeline keeps the limits with the regions it really needs."""
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
