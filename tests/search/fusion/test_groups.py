"""Groups of Funcs by hand, their number, settings, time budgets, and the partitions beside a beam search."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace

import pytest

from autosched import Func, Input, Pipeline, Var, float32, schedule
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.errors import InputError
from autosched.schedule.legality.validate import validate
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.fusion.group_graph import FusedGroup, GroupGraph
from autosched.search.fusion.group_search import ROOTS_A_BATCH, GroupSearch
from autosched.search.fusion.partition_search import PartitionSearch
from autosched.search.fusion.recomputation import RecomputationSearch
from autosched.search.fusion.settings import UNLIMITED, FusionSettings
from autosched.search.rewrites.portfolio import RewriteSearch, search_portfolio
from autosched.search.settings import PAPER, SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.protocol import Beam, DynamicProgramming
from autosched.search.tune.effort_levels import effort_level
from autosched.target import get_target
from tests.search.fusion.random_graphs import FEW_TILES

H200 = get_target("h200")
y, x = Var("y"), Var("x")


def diamond() -> BoundPipeline:
    """Return ``image -> a -> (b, c) -> d -> e``, where ``e`` reads ``a`` too."""
    image = Input("image", float32, 2)
    a, b, c, d, e = (Func(name) for name in "abcde")
    a[y, x] = image[y, x] + image[y, x + 1]
    b[y, x] = a[y, x] + a[y, x + 1]
    c[y, x] = a[y, x] - a[y + 1, x]
    d[y, x] = b[y, x] * c[y, x + 1]
    e[y, x] = d[y, x] + d[y + 1, x] + a[y, x]
    return bind(Pipeline([e.over(y=(0, 512), x=(0, 512))]), {"image": (600, 600)})


def bound_app(name: str, small: bool = False) -> BoundPipeline:
    app = get_app(name)
    pipeline, params = app.configure({})
    return bind(pipeline, app.shapes(app.small_sizes if small else None), params)


def all_groups(graph: GroupGraph, root: str) -> set[frozenset[str]]:
    level, found = [FusedGroup(root)], set()
    while level:
        found |= {g.funcs for g in level}
        level = [FusedGroup(root, (*g.members, name)) for g in level for name in graph.extensions(g)]
    return found


def test_groups_are_closed_under_consumers() -> None:
    graph = GroupGraph(diamond(), frozenset())
    assert graph.postdominators == {"e": None, "d": "e", "c": "d", "b": "d", "a": "e"}
    assert all_groups(graph, "e") == {frozenset(g) for g in ("e", "ed", "edc", "edb", "edcb", "edcba")}
    assert list(graph.roots_below(FusedGroup("e", ("d", "c")))) == ["b", "a"]
    assert list(graph.outer_roots()) == ["e"]


def test_consumers_are_those_behind_inlined_funcs() -> None:
    graph = GroupGraph(diamond(), frozenset({"d"}))
    assert graph.consumers == {"e": frozenset(), "c": {"e"}, "b": {"e"}, "a": {"b", "c", "e"}}
    assert graph.inlined_into(FusedGroup("e", ("c",))) == {"d"}
    assert graph.inlined_into(FusedGroup("b")) == frozenset()


def test_the_number_of_groups_is_limited() -> None:
    graph = GroupGraph(diamond(), frozenset())
    # 5 roots alone; pairs ed, dc, db; triples edc, edb, dcb; edcb; edcba
    assert [graph.affordable_funcs(10, n) for n in (4, 7, 8, 11, 12, 13)] == [1, 1, 2, 3, 4, 10]


def test_most_funcs_limits_kernels() -> None:
    bound = bound_app("harris")
    kernels = [
        DynamicProgramming(FusionSettings(most_funcs=most), PAPER).search(bound, H200).ranked[0] for most in (1, 3, 10)
    ]
    fused = [max(len(k.fused) for k in r.schedule.kernels) for r in kernels]
    assert fused[0] == 0
    assert fused[1] <= 2
    assert kernels[0].seconds >= kernels[1].seconds >= kernels[2].seconds


@pytest.mark.parametrize(
    "name", ["unsharp", "hist", "iir_blur", "attention", "bilateral_grid", "layer_norm", "miniflux"]
)
@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_schedules_are_legal(name: str, target: str) -> None:
    bound, device = bound_app(name, small=True), get_target(target)
    result = DynamicProgramming(settings=replace(PAPER, beam_size=1)).search(bound, device)
    assert not result.note
    validate(bound, result.best, device)


def test_the_same_seed_gives_the_same_schedule() -> None:
    bound = bound_app("unsharp", small=True)
    assert DynamicProgramming().search(bound, H200).best == DynamicProgramming().search(bound, H200).best


def test_a_time_budget_ends_the_search() -> None:
    bound = bound_app("camera_pipe")
    result = DynamicProgramming().search(bound, H200, seconds=0.3)
    assert result.cut_short
    validate(bound, result.best, H200)


def test_partitions_beside_a_beam_search_fuse_several_funcs_at_once() -> None:
    """In max_filter each Func alone is faster stored, and all of them together fused."""
    bound = bound_app("max_filter")
    patient = SearchSettings(refine_patience=1)
    without = Beam(replace(patient, partitions=False)).search(bound, H200).ranked[0].seconds
    assert Beam(patient).search(bound, H200).ranked[0].seconds < 0.8 * without


def test_partitions_beside_a_beam_search_start_from_many_tiles_of_a_root() -> None:
    """In diffterm the tile of the cheapest group is not among the 16 cheapest ones of its root alone."""
    bound, settings = bound_app("diffterm"), effort_level("default").settings["cuda"]
    without = Beam(replace(settings, partitions=False)).search(bound, H200).ranked[0].seconds
    assert Beam(settings).search(bound, H200).ranked[0].seconds < 0.97 * without


@pytest.mark.parametrize(("factor", "groups"), [(0.9, 1), (1.1, 2)])
def test_groups_are_extended_where_single_funcs_are_near_the_best_state(factor: float, groups: int) -> None:
    """With a limit for single Funcs alone, kernels with a member are searched only below it."""
    bound = bound_app("unsharp", small=True)
    evaluator = KernelEvaluator(bound, H200, analytical_model(H200), SearchSettings())
    search = GroupSearch(evaluator, OptionEnumerator(evaluator), 2)
    graph = GroupGraph(bound, frozenset())
    alone = PartitionSearch(search, 1, 1.2, 1).partitions(graph)[0].cost
    found = PartitionSearch(search, 2, 1.2, 1, most_costs=[factor * alone]).partitions(graph)
    assert bool(found) == (groups > 1)
    if found:
        assert found[0].cost <= alone
    assert max(len(key.group.funcs) for key in search._kernels) == groups


def fan(width: int) -> BoundPipeline:
    """Return Funcs of 3 x 1 points each that one Func reads at two points."""
    image, out = Input("image", float32, 2), Func("out")
    parts = [Func(f"p{k}") for k in range(width)]
    for k, part in enumerate(parts):
        part[y, x] = (image[y, x] / (1.5 + image[y + 1, x])) / (2.5 + k + image[y + 2, x])
    out[y, x] = sum(p[y, x] * p[y, x + 1] for p in parts)
    return bind(Pipeline([out.over(y=(0, 1024), x=(0, 1024))]), {"image": (1026, 1025)})


@pytest.mark.parametrize("most", [4, 12])
def test_groups_of_each_size_are_limited(most: int) -> None:
    """Any subset of six producers is a group with their reader: 6, 15, 20, 15, 6 and 1 of them."""
    evaluator = KernelEvaluator(fan(6), H200, analytical_model(H200), FEW_TILES)
    groups = GroupSearch(evaluator, OptionEnumerator(evaluator), 1)
    graph = GroupGraph(evaluator.bound, frozenset())
    limited = PartitionSearch(groups, 10, 10.0, 1, None, (), most).partitions(graph)[0].cost
    sizes = Counter(len(key.group.funcs) for key in groups._kernels)
    assert max(sizes[n] for n in range(2, 8)) <= most
    assert sizes[2] == min(most, 6)
    assert sizes[7] == 1
    assert PartitionSearch(groups, 10, 10.0, 1, None).partitions(graph)[0].cost == pytest.approx(limited, rel=0.02)
    assert Counter(len(key.group.funcs) for key in groups._kernels) == {1: 7, 2: 6, 3: 15, 4: 20, 5: 15, 6: 6, 7: 1}


def fusion_searches(most_nests: int, count: int) -> list[RewriteSearch]:
    """Return searches of equal pipelines, as of several rewrites, after fusion within a limit of loop nests."""
    fusion, model = FusionSettings(most_nests=most_nests), analytical_model(H200)
    searches = [RewriteSearch(fan(7), H200, model, PAPER, 0, fusion=fusion) for _ in range(count)]
    assert not math.isnan(next(search_portfolio(searches, None, 1)).ranked[0].seconds)
    return searches


def test_loop_nests_of_evaluated_kernels_are_limited() -> None:
    """Funcs alone are tried in any case, and fusion ends with the batch of groups that reaches the limit."""
    alone, all_of_them = (fusion_searches(most, 1)[0].nests for most in (0, UNLIMITED))
    most = (alone + all_of_them) // 3
    limited = fusion_searches(most, 1)[0].nests
    assert alone < most <= limited < 0.8 * all_of_them
    shared = [search.nests for search in fusion_searches(2 * most, 2)]
    assert most <= min(shared)
    assert sum(shared) < 1.6 * all_of_them


def test_a_short_time_budget_ends_before_all_funcs_alone_are_tried() -> None:
    bound = bound_app("local_laplacian")
    evaluator = KernelEvaluator(bound, H200, analytical_model(H200), FEW_TILES)
    ends = itertools.chain([False], itertools.repeat(True))
    groups = GroupSearch(evaluator, OptionEnumerator(evaluator), 1, out_of_time=lambda: next(ends), late=lambda: True)
    graph = GroupGraph(bound, frozenset())
    assert PartitionSearch(groups, 10, 1.2, 1).partitions(graph) == []
    assert len(groups._kernels) == ROOTS_A_BATCH < len(graph.consumers)


@pytest.mark.parametrize("most", [0, 20_000])
def test_schedules_of_limited_searches_are_legal_and_reproducible(most: int) -> None:
    bound = bound_app("camera_pipe", small=True)
    strategy = DynamicProgramming(FusionSettings(most_nests=most), PAPER)
    result = strategy.search(bound, H200)
    assert not result.cut_short
    validate(bound, result.best, H200)
    assert strategy.search(bound, H200).best == result.best


def stencil_chain(length: int) -> BoundPipeline:
    """Return a chain of 3 x 3 sums."""
    previous: Func | Input = Input("image", float32, 2)
    for k in range(length):
        func = Func(f"f{k}")
        func[y, x] = sum(previous[y + i, x + j] for i in range(3) for j in range(3)) * 0.11
        previous = func
    assert isinstance(previous, Func)
    return bind(Pipeline([previous.over(y=(0, 256), x=(0, 256))]), {"image": (256 + 2 * length, 256 + 2 * length)})


def test_kernels_of_a_root_that_every_rule_prunes_are_costed_in_one_batch() -> None:
    """Five sums of 3 x 3 points inlined into a sixth take 11 x 11 points, more than the limit below."""
    settings = SearchSettings(max_inlined_calls=16)
    evaluator = KernelEvaluator(stencil_chain(6), H200, analytical_model(H200), settings)
    search = GroupSearch(evaluator, OptionEnumerator(evaluator), 4)
    graph = GroupGraph(evaluator.bound, frozenset(f"f{k}" for k in range(5)))
    search.search(graph, [FusedGroup("f5")])
    assert search.best(graph, FusedGroup("f5"))
    assert evaluator.counts.kernels > 20
    assert evaluator.counts.batches <= 4


def test_producers_that_are_evaluated_too_often_are_not_inlined_along_a_chain() -> None:
    """A point of the last sum takes 9 points of ``f4``, 25 of ``f3``, 49 of ``f2``, and so on."""
    evaluator = KernelEvaluator(stencil_chain(6), H200, analytical_model(H200), SearchSettings(max_inlined_calls=30))
    groups = GroupSearch(evaluator, OptionEnumerator(evaluator), 4)
    recomputation = RecomputationSearch(PartitionSearch(groups, 10, 1.2, 1), groups)
    graph = GroupGraph(evaluator.bound, frozenset())
    assert recomputation._with_exclusive_producers(graph, "f4") == {"f4", "f3"}
    assert recomputation._with_exclusive_producers(graph, "f2") == {"f2", "f1"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"most_of_size": 0}, "most_of_size is 0"),
        ({"most_nests": -1}, "most_nests -1"),
        ({"most_funcs": 0}, "most_funcs is 0"),
        ({"width": -1}, "width -1"),
        ({"slack": 0.9}, "slack is 0.9"),
    ],
)
def test_refused_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FusionSettings(**settings)  # type: ignore[arg-type]


def test_outputs_without_points_get_a_schedule() -> None:
    image, below, out = Input("image", float32, 2), Func("below"), Func("out")
    below[y, x] = image.clamped()[y + 1, x]
    out[y, x] = below[2 * y, x] - below[2 * y + 1, x]
    pipeline = Pipeline([out.over(y=(0, image.shape[0] // 2), x=(0, image.shape[1]))])
    for target in ("h200", "cpu"):
        assert schedule(pipeline, {"image": (1, 8)}, target, strategy="dp").text()
