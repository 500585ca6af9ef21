"""Schedule files that somebody has changed: one that is still accepted must compute the same."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import autosched as a
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import AutoschedError, BoundsError
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import validate
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.target import get_target
from tests.fuzz.pipelines import Case, points
from tests.fuzz.witnesses import check_schedule, reference_outputs

Document = Any
Rng = np.random.Generator
TARGETS = ("cpu", "h200")
MAX_POINTS = 50_000
NUMBERS: tuple[Callable[[int], int], ...] = (
    lambda n: n + 1, lambda n: n - 1, lambda n: 2 * n, lambda n: n // 2, lambda n: 0, lambda n: 1, lambda n: -n,
    lambda n: 1 << 31, lambda n: 3 * n + 1,
)  # fmt: skip
x, y, c = a.Var("x"), a.Var("y"), a.Var("c")


def _stereo() -> tuple[Pipeline, dict[str, tuple[int, ...]]]:
    """An output that another one reads at points chosen by a comparison of coordinates."""
    image, f, g = Input("image", "float32", 1), Func("f"), Func("g")
    f[x] = image.clamped()[x] * 3
    g[x, c] = f[a.select(x < c, c, x) // 4] + 1
    return Pipeline([f.over(x=(0, 7)), g.over(x=(0, 26), c=(0, 3))]), {"image": (8,)}


def _sums() -> tuple[Pipeline, dict[str, tuple[int, ...]]]:
    """Updates of one Func that keep to their points, and a Func that reads the result."""
    image, f, g = Input("image", "int32", 1), Func("f"), Func("g")
    r = RDom("r", k=5)
    f[x] = 7
    f[x] += image[x + r.k]
    f[x] = f[x] * 2 - image[x]
    g[x] = f[x] + 1
    return Pipeline(g.over(x=(0, 60))), {"image": (64,)}


def _pyramid() -> tuple[Pipeline, dict[str, tuple[int, ...]]]:
    """A level that the next one reads, and the output."""
    image, fine, coarse, out = Input("image", "int32", 2), Func("fine"), Func("coarse"), Func("out")
    edge = image.clamped()
    fine[y, x] = edge[y, x] * 2 + edge[y, x + 1]
    coarse[y, x] = fine[2 * y, 2 * x] + fine[2 * y + 1, 2 * x + 1] + fine[2 * y - 1, 2 * x]
    out[y, x] = fine[y, x] + coarse[y // 2, x // 2]
    return Pipeline([out.over(y=(0, 13), x=(0, 29))]), {"image": (13, 29)}


def _product() -> tuple[Pipeline, dict[str, tuple[int, ...]]]:
    """A matrix product with an epilogue, in the threads of the sums or in others."""
    left, right, f, g = Input("left", "int32", 2), Input("right", "int32", 2), Func("f"), Func("g")
    r = RDom("r", k=12)
    f[y, x] = 0
    f[y, x] += left[y, r.k] * right[r.k, x]
    g[y, x] = f[y, x] * 2 + 1
    return Pipeline(g.over(y=(0, 10), x=(0, 14))), {"left": (10, 12), "right": (12, 14)}


def _scan() -> tuple[Pipeline, dict[str, tuple[int, ...]]]:
    """Running sums along rows, a histogram of them, and a stencil."""
    image, f, h, g = Input("image", "int32", 2), Func("f"), Func("h"), Func("g")
    r, s = RDom("r", x=(1, 20)), RDom("s", y=9, x=20)
    f[y, x] = image[y, x]
    f[y, r.x] += f[y, r.x - 1]
    h[x] = 0
    h[f[s.y, s.x] % 8] += 1
    g[y, x] = f[y, x] + h[x % 8] - f[y, a.clamp(x - 1, 0, 19)]
    return Pipeline(g.over(y=(0, 9), x=(0, 20))), {"image": (9, 20)}


PIPELINES = (_stereo, _sums, _pyramid, _product, _scan)


@dataclass
class Tally:
    """Counts of accepted and refused files."""

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


def case_of(number: int) -> Case:
    """Return one of the pipelines with inputs."""
    pipeline, shapes = PIPELINES[number % len(PIPELINES)]()
    rng = np.random.default_rng(number)
    inputs = {i.name: rng.integers(-50, 50, shapes[i.name]).astype(i.dtype.numpy) for i in pipeline.inputs}
    return Case(pipeline, inputs, {})


def check_mutations(case: Case, number: int, count: int, tally: Tally, run: int | None = None) -> None:
    """Change the file of one random schedule ``count`` times; run new accepted schedules in the C backend.

    Args:
        case: The pipeline with its inputs; nothing is done if it is too large, or cannot be bound.
        number: Seed of target, schedule and changes.
        count: Changed files.
        tally: Counters to add to.
        run: Most schedules that are run; all by default.
    """
    bound = _bound_if_small(case)
    if bound is None:
        return
    target, rng = get_target(TARGETS[number % 2]), np.random.default_rng(number)
    schedule = sample_schedule(bound, target, rng, varied=True, lanes="exact")
    document, expected = to_json_document(bound, schedule), reference_outputs(case)
    seen = {schedule}
    for _ in range(count):
        changed = copy.deepcopy(document)
        for _ in range(int(rng.choice((1, 1, 1, 2, 3)))):
            mutate(changed, rng)
        text = json.dumps(changed)
        tally.counts["files"] += 1
        try:
            found = from_json(text, bound)
            validate(bound, found, target)
        except AutoschedError as error:
            tally.counts["refused"] += 1
            tally.reasons[type(error).__name__] += 1
            continue
        tally.counts["accepted"] += 1
        if found in seen or (run is not None and run <= 0):
            continue
        seen.add(found)
        run = None if run is None else run - 1
        tally.counts["run"] += 1
        try:
            check_schedule(case, bound, found, expected, emulate=False)
        except Exception as error:
            error.add_note(f"number {number}, {target.name}, {case!r}, schedule file:\n{text}")
            raise


def _bound_if_small(case: Case) -> BoundPipeline | None:
    try:
        bound = bind(case.pipeline, case.shapes, dict(case.params))
    except BoundsError:
        if not case.is_far:
            raise
        return None
    return bound if points(bound) <= MAX_POINTS else None


def to_json_document(bound: BoundPipeline, schedule: Any) -> Document:
    """Return the content of a schedule's file."""
    return json.loads(to_json(bound, schedule))


def mutate(document: Document, rng: Rng) -> None:
    """Make one change in the kernels of a schedule file."""
    changes = (_swap, _swap, _duplicate, _drop, _move, _number, _number, _word, _flag, _merge, _part, _regroup)
    if document["kernels"]:  # not if an earlier change dropped all of them
        _pick(rng, changes)(document["kernels"], rng)


def _nodes(node: Any, key: str = "kernels") -> Iterator[tuple[str, Any]]:
    yield key, node
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _nodes(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _nodes(value, f"one of {key}")


def _lists(kernels: Document, least: int) -> list[tuple[str, list[Any]]]:
    return [(k, n) for k, n in _nodes(kernels) if isinstance(n, list) and len(n) >= least]


def _pick(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))] if choices else None


def _swap(kernels: Document, rng: Rng) -> None:
    found = _pick(rng, _lists(kernels, 2))
    if found:
        i, j = rng.choice(len(found[1]), 2, replace=False)
        found[1][i], found[1][j] = found[1][j], found[1][i]


def _duplicate(kernels: Document, rng: Rng) -> None:
    _, items = _pick(rng, _lists(kernels, 1))
    items.insert(int(rng.integers(len(items) + 1)), copy.deepcopy(_pick(rng, items)))


def _drop(kernels: Document, rng: Rng) -> None:
    _, items = _pick(rng, _lists(kernels, 1))
    del items[int(rng.integers(len(items)))]


def _move(kernels: Document, rng: Rng) -> None:
    key, items = _pick(rng, _lists(kernels, 1))
    others = [n for k, n in _lists(kernels, 0) if k == key]
    item = items.pop(int(rng.integers(len(items))))
    target = _pick(rng, others)
    target.insert(int(rng.integers(len(target) + 1)), item)


def _fields(kernels: Document, kind: type) -> list[tuple[dict[str, Any], str]]:
    return [(n, k) for _, n in _nodes(kernels) if isinstance(n, dict) for k, v in n.items() if type(v) is kind]


def _number(kernels: Document, rng: Rng) -> None:
    found = _pick(rng, _fields(kernels, int))
    if found:
        node, key = found
        node[key] = _pick(rng, NUMBERS)(node[key])


def _word(kernels: Document, rng: Rng) -> None:
    fields = _fields(kernels, str)
    found = _pick(rng, fields)
    if found:
        node, key = found
        known = {"kind": ["block", "thread", "serial", "reduction"], "level": ["block", "stream", "warp", "thread"]}
        node[key] = _pick(rng, known.get(key) or sorted({n[k] for n, k in fields if k == key}))


def _flag(kernels: Document, rng: Rng) -> None:
    found = _pick(rng, _fields(kernels, bool))
    if found:
        node, key = found
        node[key] = not node[key]


def _merge(kernels: Document, rng: Rng) -> None:
    """Merge two kernels into one."""
    if len(kernels) > 1:
        i, j = sorted(rng.choice(len(kernels), 2, replace=False))
        for key, items in kernels.pop(j).items():
            kernels[i][key] = [*kernels[i][key], *items] if rng.random() < 0.7 else [*items, *kernels[i][key]]


def _part(kernels: Document, rng: Rng) -> None:
    """Give one root of a kernel with several a kernel of its own."""
    several = [k for k in kernels if len(k["roots"]) > 1]
    if several:
        kernel = _pick(rng, several)
        root = kernel["roots"].pop(int(rng.integers(len(kernel["roots"]))))
        at = int(rng.integers(len(kernels) + 1))
        kernels.insert(at, {"roots": [root], "members": [], "inlined": []})


def _regroup(kernels: Document, rng: Rng) -> None:
    """Move a factor from one loop of a dimension to another, in all stages or in one."""
    loops = [n for k, n in _lists(kernels, 2) if k == "loops"]
    chosen = _pick(rng, loops)
    pairs = [
        (p["dim"], p["kind"], q["kind"]) for p in chosen or () for q in chosen if p is not q and p["dim"] == q["dim"]
    ]
    if not pairs:
        return
    dim, longer, shorter = _pick(rng, pairs)
    factor = int(rng.choice((2, 3, 4)))
    for own in loops if rng.random() < 0.5 else [chosen]:
        for p in own:
            if p["dim"] == dim and p["kind"] == longer:
                p["extent"] *= factor
            elif p["dim"] == dim and p["kind"] == shorter:
                p["extent"] = max(-(-p["extent"] // factor), 1)
