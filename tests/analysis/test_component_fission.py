"""Fission of components: the same values under the same names, in all backends."""

from __future__ import annotations

import pytest

from autosched import Func, Input, Pipeline, RDom, ScheduleError, Var, cast
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import ComponentFission, HorizontalFusion
from autosched.analysis.rewrites.component_fission import component_fission_error, split_components
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs
from autosched.lang.boundary import KINDS
from autosched.lang.dtypes import DType, float32, float64, int32
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.rewrites import reassociated_pipeline, rewrite_error
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.analysis.statement_cases import assert_all_witnesses, bordered

H200 = get_target("h200")
z, y, x = Var("z"), Var("y"), Var("x")
GROUPS = [((0,), (1,), (2,)), ((0, 2), (1,)), ((2,), (1, 0))]


def fields(boundary: str, dtype: DType) -> BoundPipeline:
    """Return a tuple of three values, of two types, which another Func reads behind a boundary condition."""
    a, f, g = Input("a", dtype, 2), Func("f"), Func("g")
    at = bordered(a, boundary)
    f[y, x] = (at[y, x - 1] + at[y, x], at[y - 1, x] - at[y + 1, x], cast(int32, at[y, x]) + 3)
    box = {"y": (0, 7), "x": (0, 11)}
    ranges = {"y": (0, 7), "x": (0, 11)}
    near = f.constant(1, **ranges) if boundary == "constant" else getattr(f, boundary)(**ranges)
    g[y, x] = near[y, x + 1][0] - near[y + 1, x][1] + cast(dtype, near[y, x - 1][2]) + cast(dtype, f[y, x][2])
    return bind(Pipeline([f.over(**box), g.over(**box)]), {"a": (7, 11)})


def volume(boundary: str, dtype: DType) -> BoundPipeline:
    """Return an intermediate pair in three dimensions, read by two outputs."""
    a, pair, f, g = Input("a", dtype, 3), Func("pair"), Func("f"), Func("g")
    at = bordered(a, boundary)
    pair[z, y, x] = (at[z - 1, y, x] + at[z + 1, y, x], at[z, y, x] * at[z, y, x + 1])
    f[z, y, x] = pair[z, y, x][0] + pair[z, y, x][1]
    g[z, y, x] = pair[z, y + 1, x][1] - at[z, y, x]
    box = {"z": (0, 4), "y": (0, 5), "x": (0, 9)}
    return bind(Pipeline([f.over(**box), g.over(**box)]), {"a": (4, 6, 9)})


@pytest.mark.parametrize("boundary", KINDS)
@pytest.mark.parametrize("groups", GROUPS, ids=str)
def test_two_dimensions(boundary: str, groups: tuple[tuple[int, ...], ...]) -> None:
    dtype = (float32, float64, int32)[GROUPS.index(groups)]
    bound = fields(boundary, dtype)
    assert_all_witnesses(bound, split_components(bound, [ComponentFission("f", groups)]), seeds=1)


@pytest.mark.parametrize("boundary", KINDS)
def test_three_dimensions(boundary: str) -> None:
    bound = volume(boundary, float64)
    rewritten = split_components(bound, [ComponentFission("pair", ((0,), (1,)))])
    assert rewritten.funcs["pair_0"].region != rewritten.funcs["pair_1"].region  # of each what is needed
    assert_all_witnesses(bound, rewritten)


def test_parts_of_parts_and_fusion() -> None:
    bound = fields("clamped", float32)
    fissions = (ComponentFission("f", ((0, 2), (1,))), ComponentFission("f_0_2", ((0,), (1,))))
    split = split_components(bound, fissions)
    assert [name for name, _, _ in split.output_components] == ["f_0", "f_1", "f_2", "g"]
    assert split_components(split, fissions) is split and split_components(split, ()) is bound
    fused = fuse_outputs(split, [HorizontalFusion(("f_0_2_0", "f_1"))])
    assert fused.before_fusion is split and fused.rewrites == (*fissions, *fused.fusions)
    for rewritten in (split, fused):
        assert_all_witnesses(bound, rewritten, seeds=1)
    schedule = schedule_roots(fused, H200)
    assert not rewrite_error(bound, schedule) and reassociated_pipeline(bound, schedule) is bound
    assert "component fission of f in 2" in repr(schedule)


def test_boundary_conditions_are_split_with_their_source() -> None:
    split = split_components(fields("mirrored", float32), [ComponentFission("f", ((0,), (1, 2)))])
    borders = {name: f for name, f in split.funcs.items() if f.boundary is not None and name != "a_mirrored"}
    assert {f.stages[0].sources for f in borders.values()} == {("f_0",), ("f_1_2",)}


REFUSED = [
    (ComponentFission("h", ((0,), (1,))), "there is no Func 'h'"),
    (ComponentFission("f", ((0, 1, 2),)), "a fission of f needs at least two groups, each with a component"),
    (ComponentFission("f", ((0, 1, 2), ())), "a fission of f needs at least two groups, each with a component"),
    (ComponentFission("f", ((0,), (1,))), "f has 3 values: each of the components 0 to 2 belongs to one group"),
    (ComponentFission("f", ((0, 1), (1, 2))), "f has 3 values: each of the components 0 to 2 belongs to one group"),
    (ComponentFission("f_clamped", ((0,), (1, 2))),
     "f_clamped has updates or a boundary condition; only Funcs with one definition can be split"),
]  # fmt: skip


@pytest.mark.parametrize(("fission", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_errors(fission: ComponentFission, reason: str) -> None:
    bound = fields("clamped", float32)
    assert component_fission_error(bound, fission) == reason
    with pytest.raises(ScheduleError, match="remove this fission, or make a new schedule"):
        split_components(bound, [fission])


def test_updates_are_refused() -> None:
    a, f, r = Input("a", float32, 2), Func("f"), RDom("r", x=(0, 4))
    f[y, x] = (a[y, x], a[y, x] * 2)
    f[y, x] = (f[y, x][0] + a[y, x + r.x], f[y, x][1])
    bound = bind(Pipeline(f.over(y=(0, 8), x=(0, 8))), {"a": (8, 12)})
    assert "has updates" in component_fission_error(bound, ComponentFission("f", ((0,), (1,))))


def test_files_with_wrong_groups_are_refused() -> None:
    bound = fields("clamped", float32)
    written = to_json(bound, schedule_roots(split_components(bound, [ComponentFission("f", ((0, 2), (1,)))]), H200))
    assert '"fissions"' in written
    with pytest.raises(ScheduleError, match=r"fissions\[0\] cannot be made: f has 3 values"):
        from_json(written.replace('"fissions": [', '"fissions": [{"func": "f", "groups": [[0], [1]]}, ', 1), bound)
