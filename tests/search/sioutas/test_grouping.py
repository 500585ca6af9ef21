"""Inlining and grouping: each step lowers the cost."""

from __future__ import annotations

from collections import Counter

import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.apps.registry import get_app
from autosched.search.strategies.sioutas.deadline import Deadline
from autosched.search.strategies.sioutas.group_cost import GroupPricer
from autosched.search.strategies.sioutas.grouping import Grouper
from autosched.search.strategies.sioutas.inlining import Inliner
from autosched.search.strategies.sioutas.partition import Partition, can_be_member
from autosched.target import get_target
from tests.schedule.building import blur, blur_pipeline
from tests.search.sioutas.pipelines import figure_4, two_readers

H200 = get_target("h200")


def grouped(partition: Partition, pricer: GroupPricer) -> Grouper:
    """Return the grouper after all merges."""
    grouper = Grouper(pricer, partition, Deadline(None), Counter())
    grouper.run()
    return grouper


def test_stages_of_a_blur_become_one_group() -> None:
    bound = blur(1000, 1000)
    pricer = GroupPricer(bound, H200)
    inlined = Inliner(pricer, Deadline(None), Counter()).run()
    assert inlined == {"img_clamped"}
    partition = Partition(bound, inlined)
    assert len(partition.members) == 2
    grouped(partition, pricer)
    assert list(partition.members.values()) == [("across",)]


def test_pointwise_stages_are_inlined() -> None:
    bound = bind(figure_4(), {"E": (1000, 1000)})
    assert {"E_clamped", "H"} <= Inliner(GroupPricer(bound, H200), Deadline(None), Counter()).run()


def test_func_read_by_two_groups_is_not_merged() -> None:
    bound = bind(two_readers(), {"img": (1000, 1000)})
    partition = Partition(bound, frozenset({"img_clamped"}))
    grouped(partition, GroupPricer(bound, H200))
    assert list(partition.members.values()) == [(), (), ()]
    assert len(partition.reading_groups("blur")) == 2


@pytest.mark.parametrize("name", ["harris", "unsharp", "camera_pipe"])
def test_merging_lowers_the_sum_of_costs(name: str) -> None:
    app = get_app(name)
    bound = bind(app.build(), app.shapes({}))
    pricer = GroupPricer(bound, H200)
    partition = Partition(bound, Inliner(pricer, Deadline(None), Counter()).run())
    kernels = len(partition.members)
    grouper = Grouper(pricer, partition, Deadline(None), Counter())
    before = sum(grouper.cost(g) for g in partition.members)
    grouper.run()
    assert len(partition.members) < kernels
    assert sum(grouper.cost(g) for g in partition.members) < before


@pytest.mark.parametrize(("steps", "expected"), [(19, True), (21, False)])
def test_a_func_with_two_readers_is_inlined_if_that_saves_more_loads_than_operations(
    steps: int, expected: bool
) -> None:
    """A point costs 40 + k alone and 40 in each reader, or 40 + k in each: inlined with k < 40 operations."""
    x = Var("x")
    img, func, left, right = Input("img", float32, 1), Func("func"), Func("left"), Func("right")
    value = img[x]
    for _ in range(steps):
        value = value * 1.5 + 0.5  # two operations
    func[x] = value
    left[x] = func[x] + 1
    right[x] = func[x] + 2
    bound = bind(Pipeline([left.over(x=(0, 4096)), right.over(x=(0, 4096))]), {"img": (4096,)})
    considered: Counter[str] = Counter()
    inliner = Inliner(GroupPricer(bound, H200), Deadline(None), considered)
    assert inliner.run() == ({"func"} if expected else set())
    assert considered["inline"] > 0
    assert Inliner(GroupPricer(bound, H200), Deadline(0.0), Counter()).run() == set()  # no time


def test_splitting_a_group_undoes_its_merges() -> None:
    bound = blur(1000, 1000)
    partition = Partition(bound, frozenset({"img_clamped"}))
    alone = set(partition.members)
    (group,) = partition.reading_groups("across")
    partition.merge("across", group)
    assert set(partition.members) == {group}
    assert {group, *partition.split(group)} == alone
    assert partition.reading_groups("across") == [group]
    assert partition.home == {}


def test_histograms_and_outputs_are_no_members() -> None:
    app = get_app("hist")
    bound = bind(app.build(), app.shapes(app.small_sizes))
    whole = [f for f in bound.funcs.values() if f.is_used_whole]
    assert "cdf" in {f.name for f in whole}
    assert not any(can_be_member(f) for f in whole)
    rows = bound.funcs["histogram_rows"]
    assert any(r is not None for r in rows.fixed) and can_be_member(rows)  # the bins of some rows
    assert not any(can_be_member(f) for f in bound.funcs.values() if f.is_output)
    assert can_be_member(bind(blur_pipeline(), {"img": (9, 9)}).funcs["across"])
