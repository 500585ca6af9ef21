"""Inlining and grouping: each step lowers the cost."""

from __future__ import annotations

from collections import Counter

import pytest

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


def test_inlining_lowers_the_sum_of_costs() -> None:
    app = get_app("local_laplacian")
    bound = bind(app.build(), app.shapes({}))
    pricer = GroupPricer(bound, H200)
    considered: Counter[str] = Counter()
    everything = Inliner(pricer, Deadline(None), considered).run()
    trivial = Inliner(pricer, Deadline(0.0), Counter()).run()  # no time: only Funcs whose inlining needs no cost
    assert trivial < everything

    def cost(inlined: frozenset[str]) -> float:
        partition = Partition(bound, inlined)
        return sum(pricer.price(partition.sketch(g)).cost for g in partition.members)

    assert cost(everything) < cost(trivial)
    assert considered["inline"] > 0


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
