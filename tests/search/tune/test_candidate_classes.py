"""Classes of candidates, and their counts."""

from __future__ import annotations

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.measure.compile.content_keys import schedule_text
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.sliding_window.sliding_search import SlidingWindowSearch
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.settings import COMPILED
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.autotune.candidate_classes import PLAIN, candidate_classes, class_counts
from autosched.search.tune.autotune.counts_text import counts_text
from autosched.target import get_target
from tests.schedule.building import block, kernel, member, root, schedule
from tests.schedule.mainloop_cases import product
from tests.search.test_sliding_search import sweeps
from tests.search.test_step_mutations import with_steps

H200, CPU = get_target("h200"), get_target("cpu")


def test_classes_of_steps() -> None:
    for bound, search, name in (
        (product(64, 96, 48), MainloopSearch, "mainloop"),
        (sweeps(), SlidingWindowSearch, "sliding window"),
    ):
        assert candidate_classes(bound, schedule_roots(bound, H200)) == (PLAIN,)
        assert candidate_classes(bound, with_steps(bound, search)) == (name,)


def test_classes_of_rewrites() -> None:
    y, x, a = Var("y"), Var("x"), Input("a", float32, 2)
    more, less = Func("more"), Func("less")
    more[y, x] = a[y, x] + a[y, x + 1]
    less[y, x] = a[y, x] - a[y, x + 1]
    bound = bind(Pipeline([f.over(y=(0, 64), x=(0, 64)) for f in (more, less)], name="two"), {"a": (64, 65)})
    fused = fusion_rewrites(bound, H200, COMPILED)[-1]
    assert "horizontal fusion" in candidate_classes(bound, schedule_roots(fused, H200))


def test_cache_reads_and_packing_differ_by_storage_order() -> None:
    bound = product(32, 32, 32)
    kernels = [
        kernel(
            bound,
            [root("dot", "by=1 bx=1 tx=32 ty=8 sy=4"), root("dot.1", "by=1 bx=1 tx=32 ty=8 rr.k=32 sy=4")],
            [member(block("dot", 2), order, **{"b.staged": "tx=32 ty=8 sy=4"})],
        )
        for order in (("y", "x"), ("x", "y"))
    ]
    out = kernel(bound, [root("out", "by=1 bx=1 tx=32 ty=8 sy=4")])
    drawn = [schedule(bound, k, out) for k in kernels]
    assert [candidate_classes(bound, s) for s in drawn] == [("cache read",), ("packing",)]


def test_counts() -> None:
    bound = product(64, 96, 48)
    roots, steps = schedule_roots(bound, H200), with_steps(bound, MainloopSearch)
    counts = class_counts(bound, [schedule_text(bound, s) for s in (steps, roots, steps)])
    assert counts == {"mainloop": 2, PLAIN: 1} and counts_text(counts) == "2 mainloop, 1 plain"
    assert counts_text({}) == ""
