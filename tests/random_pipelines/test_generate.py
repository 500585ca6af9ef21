"""Random pipelines are reproducible, valid, within their limits, and have every kind of stage."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from math import prod

import numpy as np
import pytest

from autosched.errors import InputError
from autosched.random_pipelines import RandomPipeline, RandomPipelineSettings, distinct_pipelines, random_pipeline
from autosched.random_pipelines.settings import DTYPE_WEIGHTS, KIND_WEIGHTS, SMALL
from autosched.random_pipelines.stages import KINDS

DIGEST = "5e3e2a06163c3d7c"
"""Hashes of the first pipelines: equal on every machine, and in every version with this generator."""
WITHOUT_BFLOAT16 = "912a37b480f1b18c"
"""The same for settings that do not draw bfloat16, as those of stored labels."""


def digest(pipelines: Sequence[RandomPipeline]) -> str:
    texts = [f"{p.pipeline.hash} {sorted(p.shapes.items())} {sorted(p.params.items())}" for p in pipelines]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def test_hashes_of_the_first_pipelines(many: Sequence[RandomPipeline]) -> None:
    assert digest(many[:20]) == DIGEST
    settings = RandomPipelineSettings(dtypes={d: w for d, w in DTYPE_WEIGHTS.items() if d != "bfloat16"})
    assert digest([random_pipeline(seed, settings) for seed in range(20)]) == WITHOUT_BFLOAT16


def test_other_processes_make_the_same() -> None:
    code = "from autosched.random_pipelines import random_pipeline; print(random_pipeline(11).pipeline.hash)"
    environment = {"PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == random_pipeline(11).pipeline.hash


def test_a_pipeline_does_not_depend_on_those_made_before(many: Sequence[RandomPipeline]) -> None:
    again = random_pipeline(17)
    assert again.pipeline.hash == many[17].pipeline.hash
    assert (again.shapes, again.params, again.kinds) == (many[17].shapes, many[17].params, many[17].kinds)


def test_every_kind_has_a_weight_and_occurs(many: Sequence[RandomPipeline]) -> None:
    assert set(KINDS) == set(KIND_WEIGHTS)
    found = Counter(kind for p in many for kind in p.kinds)
    assert set(found) == set(KINDS)


def test_all_bind_within_the_limits(many: Sequence[RandomPipeline]) -> None:
    settings = RandomPipelineSettings()
    for p in many[:100]:
        bound = p.bind()
        funcs = [f for f in bound.funcs.values() if f.boundary is None]
        bytes_ = sum(prod(i.shape) * i.dtype.bytes_ for i in bound.inputs.values())
        for f in funcs:
            assert prod(f.extents) <= settings.max_points, (p.seed, f.name)
            bytes_ += prod(f.extents) * sum(d.bytes_ for d in f.dtypes)
        assert bytes_ <= settings.max_bytes, p.seed
        assert sum(len(f.stages) for f in funcs) <= 2 * settings.stages[1], p.seed


def test_sizes_and_structure_vary(many: Sequence[RandomPipeline]) -> None:
    stages = [sum(len(f.definitions) for f in p.pipeline.funcs if f.boundary is None) for p in many]
    assert min(stages) <= 2
    assert max(stages) >= 40
    assert {len(shape) for p in many for shape in p.shapes.values()} >= {1, 2, 3, 4}
    assert {f.boundary for p in many for f in p.pipeline.funcs} == {
        None, "clamped", "constant", "mirrored", "mirrored_without_edge", "wrapped"
    }  # fmt: skip
    extents = {n for p in many for i in p.pipeline.inputs for n in p.shapes[i.name]}
    assert sum(n % 2 for n in extents) > len(extents) / 5
    assert {len(p.pipeline.outputs) for p in many} >= {1, 2}


def test_element_types_vary(many: Sequence[RandomPipeline]) -> None:
    found = {str(d) for p in many for f in p.pipeline.funcs for d in f.dtypes}
    assert found >= {"bool", "uint8", "int8", "uint16", "int16", "int32", "float16", "bfloat16", "float32", "float64"}


def test_inputs_have_shape_type_and_range() -> None:
    for seed in range(20):
        p = random_pipeline(seed, SMALL)
        arrays = p.inputs(np.random.default_rng(seed))
        assert {name: a.shape for name, a in arrays.items()} == p.shapes
        for i in p.pipeline.inputs:
            a, given = arrays[i.name], p.ranges[i.name]
            assert a.dtype == i.dtype.numpy
            assert a.flags.c_contiguous
            assert given.low <= a.min() and a.max() <= given.high


def test_duplicates_are_left_out() -> None:
    seeds = [3, 4, 3, 5, 4]
    found = list(distinct_pipelines(seeds, SMALL, seen=[random_pipeline(5, SMALL).pipeline.hash]))
    assert [p.seed for p in found] == [3, 4]


def test_kinds_can_be_chosen() -> None:
    settings = RandomPipelineSettings(kinds={"conv_channels": 1.0, "activation": 2.0}, ranks=(3, 4))
    for seed in range(10):
        assert set(random_pipeline(seed, settings).kinds) <= {"conv_channels", "activation"}


def test_impossible_limits_are_refused() -> None:
    with pytest.raises(InputError, match="no random pipeline of seed 0 is within the limits"):
        random_pipeline(0, RandomPipelineSettings(extents=(100, 200), ranks=(2,), max_bytes=1000))


def test_values_of_any_size_can_be_cast_to_integers() -> None:
    """A difference of possibly infinite values has no range, and saturates in a cast."""
    assert "as_uint8" in {f.name for f in random_pipeline(5553, SMALL).pipeline.funcs}
