"""Algorithms 1 and 2: groups, and tiles whose extents are computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.analysis.access.regions import required_extents
from autosched.analysis.bind import bind
from autosched.apps.registry import get_app
from autosched.search.strategies.forma.fusion_groups import FusionGroup, compute_tile, find_stencils, tile_extents
from tests.search.forma import pipelines


def group_of(bound: pipelines.BoundPipeline, root: str, *more: str) -> FusionGroup:
    """Return the group of a Func, with more Funcs in memory."""
    dag = find_stencils(bound)
    group, refused = compute_tile(dag, root, dag.in_memory | set(more))
    assert refused == {}
    return group


def extents(group: FusionGroup, name: str, *tile: int) -> list[int]:
    """Return the extents of a member's or load's tile for a tile of the root with dimensions y and x."""
    offsets = group.members.get(name) or group.loads[name]
    return tile_extents(offsets, ("y", "x"), np.array([tile], np.int64))[0].tolist()


def test_tiles_of_listing_1() -> None:
    """Section 2.1.1: (bx + 2) (by + 2) elements of the input and bx (by + 2) of the intermediate image."""
    group = group_of(pipelines.blur(), "blur_y")
    assert list(group.members) == ["blur_x"]
    assert extents(group, "blur_x", 16, 32) == [18, 32]
    assert extents(group, "image", 16, 32) == [18, 34]


def test_a_stencil_with_several_readers_has_one_tile() -> None:
    """``left`` needs a[x-3 .. x], ``up`` at x+1 a[y-2 .. y, x+1 .. x+2], ``out`` a[x]: offsets y -2..0, x -3..2."""
    group = group_of(pipelines.diamond(), "out")
    assert list(group.members) == ["a", "left", "up"]
    assert extents(group, "up", 8, 8) == [8, 8]
    assert extents(group, "a", 8, 8) == [10, 13]
    assert extents(group, "image", 8, 8) == [10, 13]


def test_what_is_no_stencil_and_its_predecessors_are_in_memory() -> None:
    """Algorithm 2, lines 8 to 11; ``coarse`` loads tiles of ``half``."""
    bound = pipelines.pyramid()
    dag = find_stencils(bound)
    assert set(dag.offsets) == {"fine", "coarse", "out"}
    assert dag.in_memory == {"fine", "half", "out"}
    group = group_of(bound, "out")
    assert list(group.members) == ["coarse"] and list(group.loads) == ["half"]
    assert extents(group, "half", 8, 8) == [9, 10]
    assert list(group_of(bound, "fine").loads) == ["image"]


def test_a_stencil_of_several_kernels_is_in_memory() -> None:
    bound = pipelines.two_outputs()
    dag = find_stencils(bound)
    assert dag.in_memory == {"above", "beside"}
    _, refused = compute_tile(dag, "above", dag.in_memory)
    assert refused == {"shared": "other kernels read it"}
    group = group_of(bound, "above", "shared")
    assert group.members == {} and extents(group, "shared", 8, 8) == [10, 8]


def test_boundary_conditions_belong_to_reads() -> None:
    """Section 2.1.2: the copy of an input has the boundary condition; that of a member is applied as it is read."""
    bound = pipelines.two_outputs()
    group = group_of(bound, "shared")
    assert list(group.loads) == ["image_clamped"] and group.inlined == frozenset()
    chain = group_of(pipelines.long_chain(2, 1), "s1")
    assert list(chain.members) == ["s0"] and list(chain.loads) == ["image_clamped"]


@pytest.mark.parametrize(("name", "root"), [("harris_gray", "output"), ("canny", "output"), ("unsharp", "output")])
def test_tiles_are_the_required_regions(name: str, root: str) -> None:
    app = get_app(name)
    bound = bind(app.build(), app.shapes(app.small_sizes))
    group = group_of(bound, root)
    dims = bound.funcs[root].dims
    tiles = np.array([[8] * len(dims), [16] * len(dims)], np.int64)
    required = required_extents(bound, root, tiles, {*group.members, *group.inlined, *find_stencils(bound).boundaries})
    for member, offsets in group.members.items():
        np.testing.assert_array_equal(tile_extents(offsets, dims, tiles), required[member], err_msg=member)
