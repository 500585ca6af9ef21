"""Clones of Funcs: every form of Func, the same values in all backends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched import Func, Input, Pipeline, RDom, ScheduleError, Var, cast
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import ComponentFission, FuncClone, HorizontalFusion, RFactor
from autosched.analysis.rewrites.component_fission import split_components
from autosched.analysis.rewrites.func_cloning import clone_error, clone_funcs, consumers_of
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.lang.dtypes import float32, int32
from autosched.lang.func import undef
from autosched.lang.functions import clamp
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.rewrites import reassociated_pipeline, rewrite_error
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.analysis.statement_cases import assert_all_witnesses

H200 = get_target("h200")
y, x = Var("y"), Var("x")
ROWS, COLUMNS = 9, 37
BOX = {"y": (0, ROWS), "x": (0, COLUMNS)}


def two_readers(f: Func, image: Input, component: int | None = None) -> BoundPipeline:
    """Return a pipeline of two outputs that read a Func: near its own points, and of every second row."""

    def at(row: object, column: object) -> object:
        read = f[row, column]
        return read if component is None else read[component]

    g, h = Func("g"), Func("h")
    g[y, x] = at(y, x) + at(y + 1, x + 2)  # type: ignore[operator]
    h[y, x] = at(2 * y, x) * 3 - image[y, x]  # type: ignore[operator]
    half = {"y": (0, ROWS // 2), "x": (0, COLUMNS)}
    return bind(Pipeline([g.over(**BOX), h.over(**half)]), {"image": (2 * ROWS, COLUMNS + 9)})


def pointwise() -> BoundPipeline:
    image, f = Input("image", float32, 2), Func("f")
    f[y, x] = image[y, x] * 2 + image[y, x + 3]
    return two_readers(f, image)


def reduced() -> BoundPipeline:
    image, f, r = Input("image", float32, 2), Func("f"), RDom("r", x=(0, 6))
    f[y, x] = 1.0
    f[y, x] += image[y, x + r.x] * cast(float32, r.x)
    return two_readers(f, image)


def scanned() -> BoundPipeline:
    image, f, r = Input("image", float32, 2), Func("f"), RDom("r", x=(1, COLUMNS + 2))
    f[y, x] = image[y, x]
    f[y, r.x] += f[y, r.x - 1] * 0.5
    return two_readers(f, image)


def scattered() -> BoundPipeline:
    image, f, r = Input("image", int32, 2), Func("f"), RDom("r", y=(0, ROWS), x=(0, COLUMNS))
    f[y, x] = 0
    f[clamp(image[r.y, r.x], 0, ROWS), r.x] += 1
    return two_readers(f, image)


def filled() -> BoundPipeline:
    image, f, r = Input("image", float32, 2), Func("f"), RDom("r", x=(0, COLUMNS + 2))
    f[y, x] = undef(float32)
    f[y, COLUMNS + 1 - r.x] = image[y, r.x]
    return two_readers(f, image)


def pair() -> BoundPipeline:
    image, f = Input("image", float32, 2), Func("f")
    f[y, x] = (image[y, x], image[y, x + 1] * 2)
    return two_readers(f, image, component=1)


def bordered() -> BoundPipeline:
    image, inner = Input("image", float32, 2), Func("inner")
    inner[y, x] = image[y, x] + image[y, x + 1]
    return two_readers(inner.mirrored(y=(0, ROWS), x=(0, COLUMNS)), image)


FORMS: dict[str, Callable[[], BoundPipeline]] = {
    form.__name__: form for form in (pointwise, reduced, scanned, scattered, filled, pair, bordered)
}


@pytest.mark.parametrize("form", FORMS)
def test_all_witnesses(form: str) -> None:
    bound = FORMS[form]()
    (name,) = (n for n in bound.funcs if consumers_of(bound, n) == ("g", "h"))
    one = clone_funcs(bound, [FuncClone(name, ("h",))])
    both = clone_funcs(bound, [FuncClone(name, ("h",)), FuncClone(name, ("g",))])
    assert consumers_of(one, name) == ("g",) and consumers_of(one, f"{name}_clone") == ("h",)
    assert name not in both.funcs and {f"{name}_clone", f"{name}_clone2"} <= set(both.funcs)
    assert both.root_pipeline is bound and len(both.rewrites) == 2
    for rewritten in (one, both):
        assert_all_witnesses(bound, rewritten)


def chain() -> BoundPipeline:
    """Return two producers, one behind the other, of an output that reads both and of one that reads the last."""
    image, a, b, g, h = Input("image", float32, 2), Func("a"), Func("b"), Func("g"), Func("h")
    a[y, x] = image[y, x] + image[y, x + 1]
    b[y, x] = a[y, x] * a[y + 1, x]
    g[y, x] = b[y, x] + b[y, x + 1] + a[y, x]
    h[y, x] = b[y + 1, x] - 1
    return bind(Pipeline([g.over(**BOX), h.over(**BOX), b.over(**BOX)]), {"image": (ROWS + 5, COLUMNS + 5)})


def test_a_copy_serves_consumers_that_read_each_other() -> None:
    bound = chain()
    rewritten = clone_funcs(bound, [FuncClone("a", ("b", "g"))])
    assert "a" not in rewritten.funcs and consumers_of(rewritten, "a_clone") == ("b", "g")
    assert_all_witnesses(bound, rewritten)


def test_an_output_keeps_its_box() -> None:
    """Of an output that consumers read beyond its box more is computed; no longer, where these read copies."""
    bound = chain()
    assert bound.outputs["b"] != "b" and set(bound.funcs["b"].consumers) > {"g", "h"} == set(consumers_of(bound, "b"))
    clones = (FuncClone("b", ("g",)), FuncClone("b", ("h",)), FuncClone("a", ("b_clone", "g")))
    rewritten = clone_funcs(bound, clones)
    assert rewritten.outputs["b"] == "b" and rewritten.funcs["b"].extents == (ROWS, COLUMNS)
    assert_all_witnesses(bound, rewritten)


def test_clones_follow_all_other_rewrites() -> None:
    bound = chain()
    fused = fuse_outputs(bound, [HorizontalFusion(("g", "h"))])
    cloned = clone_funcs(fused, [FuncClone("a", ("b",))])
    assert cloned.before_clones is fused and cloned.root_pipeline is bound and cloned.fusions == fused.fusions
    assert clone_funcs(cloned, cloned.clones) is cloned and clone_funcs(cloned, ()) is fused
    assert fuse_outputs(cloned, fused.fusions) is fused
    assert_all_witnesses(bound, cloned)
    alone = clone_funcs(bound, [FuncClone("a", ("b",))])
    assert fuse_outputs(alone, ()) is bound and split_components(alone, ()) is bound
    schedule = schedule_roots(cloned, H200)
    assert not rewrite_error(bound, schedule) and reassociated_pipeline(bound, schedule) is bound
    assert "clone of a in b" in repr(schedule) and schedule.clones == cloned.clones


def test_atomic_updates_are_cloned() -> None:
    bound = scattered()
    atomic = apply_rfactors(bound, [RFactor("f", 1, (), atomic=True)])
    order = (("f", "h"), ("f_part", "f_clone"), ("f_shared", "f_part_clone"))
    cloned = clone_funcs(atomic, [FuncClone(func, (consumer,)) for func, consumer in order])
    assert [[s.combine for s in cloned.funcs[n].stages] for n in ("f_shared", "f_shared_clone")] == [[(), ("add",)]] * 2
    assert_all_witnesses(bound, cloned)


REFUSED = [
    (FuncClone("c", ("g",)), "there is no Func 'c'"),
    (FuncClone("image", ("a",)), "image is an input, which no kernel computes; a cache read copies it"),
    (FuncClone("a", ()), "a clone of a names at least one consumer, each once"),
    (FuncClone("a", ("g", "g")), "a clone of a names at least one consumer, each once"),
    (FuncClone("a", ("h",)), "h does not read a; the Funcs that do are b, g"),
    (FuncClone("g", ("h",)), "h does not read g; no Func does"),
]


@pytest.mark.parametrize(("clone", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_errors(clone: FuncClone, reason: str) -> None:
    bound = chain()
    assert clone_error(bound, clone) == reason
    with pytest.raises(ScheduleError, match="remove this clone, or make a new schedule"):
        clone_funcs(bound, [clone])


def test_files_with_wrong_clones_are_refused() -> None:
    bound = chain()
    written = to_json(bound, schedule_roots(clone_funcs(bound, [FuncClone("a", ("b",))]), H200))
    assert from_json(written, bound).clones == (FuncClone("a", ("b",)),)
    with pytest.raises(ScheduleError, match=r"clones\[0\] cannot be made: h does not read a"):
        from_json(written.replace('"clones": [', '"clones": [{"func": "a", "consumers": ["h"]}, ', 1), bound)


def test_clones_of_parts() -> None:
    bound = pair()
    split = split_components(bound, [ComponentFission("f", ((0,), (1,)))])
    assert "f_0" not in split.funcs  # nothing reads it
    assert_all_witnesses(bound, clone_funcs(split, [FuncClone("f_1", ("g",))]))
