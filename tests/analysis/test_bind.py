"""Pipelines bound to shapes: regions, stages, outputs, and errors."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched import Func, Input, Param, Pipeline, RDom, Var, float32, int32, int64, uint8
from autosched.analysis.access.affine import access_matrix
from autosched.analysis.bind import bind, output_boxes
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import BoundsError, DSLError, InputError

y, x = Var("y"), Var("x")
img = Input("img", float32, 2)
lut = Input("lut", uint8, 1)


def func(value: Any, *dims: Var, name: str = "f") -> Func:
    f = Func(name)
    f[dims or (y, x)] = value
    return f


def bound(f: Func, shapes: Any = None, params: Any = None, **box: Any) -> BoundPipeline:
    pipeline = Pipeline(f.over(**box) if box else f)
    return bind(pipeline, {i.name: (64,) * i.ndim for i in pipeline.inputs} if shapes is None else shapes, params)


def test_stages_and_loops() -> None:
    f, r = Func("f"), RDom("r", k=(1, 8), j=2)
    f[y, x] = img[y, x]
    f[r.k, x] = f[r.k - 1, x] + img[r.k, x + r.j]
    found = bound(f, y=(0, 8), x=(0, 5)).funcs["f"]
    pure, update = found.stages
    assert [d.name for d in pure.loops] == ["y", "x"] and not pure.is_update and not found.is_pure
    assert [(d.name, d.reduction, d.parallel, d.lo, d.hi, d.extent) for d in update.loops] == [
        ("x", False, True, 0, -1, 0), ("r.k", True, False, 1, 7, 7), ("r.j", True, False, 0, 1, 2),
    ]  # fmt: skip
    assert update.reductions == update.loops[1:] and update.loop("r.k").extent == 7
    assert update.sources == ("f", "img") and pure.sources == ("img",)
    assert not update.owns_point and not update.associative and update.is_update and not update.is_empty
    assert found.dims == ("y", "x") and found.region == ((0, 7), (0, 4)) and found.extents == (8, 5)
    assert found.fixed == ((0, 7), None)


def test_funcs_and_consumers() -> None:
    base = func(img[y, x] + 1, name="g")
    left, right = func(base[y, x - 1]), func(base[y, x + 1])
    out = func(left[y, x] * right[y, x], name="out")
    found = bound(out, y=(0, 8), x=(1, 9))
    assert list(found.funcs) == ["g", "f", "f_1", "out"]
    assert {n: f.consumers for n, f in found.funcs.items()} == {
        "g": ("f", "f_1"),
        "f": ("out",),
        "f_1": ("out",),
        "out": (),
    }
    assert found.funcs["g"].region == ((0, 7), (0, 9)) and found.funcs["g"].is_pure
    assert [f.is_output for f in found.funcs.values()] == [False, False, False, True]
    assert found.is_input("img") and not found.is_input("g")
    assert found.inputs["img"].shape == (64, 64) and found.stage("g", 0).func == "g"


def test_outputs_get_exactly_their_box() -> None:
    f = func(img[y, x] + 1)
    g = func(f[y, x + 3], name="g")
    pipeline = Pipeline([f.over(y=(0, 4), x=(2, 5)), g.over(y=(0, 4), x=(0, 7))])
    found = bind(pipeline, {"img": (9, 20)})
    assert found.outputs == {"f": "f_cropped", "g": "g"}
    assert found.funcs["f"].region == ((0, 3), (2, 9)) and not found.funcs["f"].is_output
    crop = found.funcs["f_cropped"]
    assert crop.region == ((0, 3), (2, 4)) and crop.is_output and crop.is_pure
    assert found.funcs["f"].consumers == ("g", "f_cropped")
    assert output_boxes(pipeline, {"img": (9, 20)}) == {f: ((0, 4), (2, 5)), g: ((0, 4), (0, 7))}


def test_outputs_with_updates_beyond_the_box_are_cropped() -> None:
    f, r = Func("f"), RDom("r", k=10)
    f[x] = (0, 0.0)
    f[r.k] = (r.k, 0.5)
    taken = Func("f_cropped")
    taken[x] = f[x][0]
    found = bind(Pipeline([f.over(x=(3, 5)), taken.over(x=(0, 2))]), {})
    assert found.outputs == {"f": "f_cropped_", "f_cropped": "f_cropped"}
    assert found.funcs["f"].region == ((0, 9),) and found.funcs["f_cropped_"].region == ((3, 4),)
    assert found.funcs["f_cropped_"].dtypes == (int32, float32)


def test_access_matrices() -> None:
    g = func(a.cast(float32, x), name="g")
    f, r = Func("f"), RDom("r", k=3)
    f[y, x] = g[y // 2, 2 * x + 1]
    f[y, x] = f[y, x] + g[(y + r.k) // 3, x - r.k]
    found = bound(f, y=(0, 8), x=(0, 8))

    def matrices(number: int) -> list[Any]:
        stage = found.stage("f", number)
        loops = [d.name for d in stage.loops]
        return [access_matrix(load, loops, stage.memo) for load, source in stage.loads if source == "g"]

    (pure,), (update,) = matrices(0), matrices(1)
    assert pure.rows == ((Fraction(1, 2), 0), (0, 2)) and pure.offsets == (0, 1) and pure.exact == (False, True)
    assert update.rows == ((Fraction(1, 3), 0, Fraction(1, 3)), (0, 1, -1)) and update.is_affine


@pytest.mark.parametrize(
    ("index", "low", "high"),
    [
        (a.clamp(a.cast(int32, img[y, x]), 3, 9), 3, 9),
        (a.cast(int32, a.clamp(img[y, x], 0.0, 12.5)), 0, 12),
        (lut[x], 0, 255),
        (lut[x] % 16, 0, 15),
        (lut[x] & 7, 0, 7),
        (a.cast(int32, lut[x]) - 100, -100, 155),
        (a.select(lut[x] < 20, lut[x], 0), 0, 19),
        (x + a.cast(int32, lut[x]) % 3, 0, 9),
        (x + lut[x] % 3, 0, 9),
        (a.hash_u32(x) % 100, 0, 99),
    ],
    ids=repr,
)
def test_indices_that_depend_on_data(index: Any, low: int, high: int) -> None:
    g = func(a.cast(float32, x), x, name="g")
    found = bound(func(g[index]), y=(0, 8), x=(0, 8))
    assert found.funcs["g"].region == ((low, high),)


@pytest.mark.parametrize(
    "index", [
        a.cast(int32, img[y, x]), a.hash_u32(x), x + a.cast(int32, img[y, x]), a.max(a.cast(int32, img[y, x]), 0),
        a.select(img[y, x] > 0, a.cast(int32, img[y, x]), 0),
    ], ids=repr,
)  # fmt: skip
def test_indices_without_a_useful_range(index: Any) -> None:
    g = func(a.cast(float32, x), x, name="g")
    f = func(g[index])
    with pytest.raises(BoundsError) as caught:
        bound(f, y=(0, 8), x=(0, 8))
    error = caught.value
    assert error.message.startswith(
        f"stage 'f': index {index!r} into 'g' depends on data and has no useful range: it reaches ["
    )
    assert error.hint == (
        "bound it: clamp(e, low, high), e % n, an 8- or 16-bit type, or comparisons of it with both ends: "
        "select((e >= 0) & (e < n), f[e], 0) for a read, r.where((e >= 0) & (e < n)) for an update over an RDom r"
    )
    assert error.location is not None and error.location.text == "f[dims or (y, x)] = value"


def test_scatter_without_a_useful_range() -> None:
    f, r = Func("hist"), RDom("r", k=64)
    f[x] = 0
    f[a.cast(int32, img[0, r.k])] += 1
    with pytest.raises(BoundsError, match=r"index int32\(img\[0, r\.k\]\) into 'hist' depends on data"):
        bound(f, x=(0, 8))


def test_update_that_follows_a_var_into_another_dimension() -> None:
    f, r = Func("f"), RDom("r", k=3)
    f[y, x] = 0
    f[y, y + r.k] = 1
    with pytest.raises(BoundsError) as caught:
        bound(f, y=(0, 8), x=(0, 8))
    assert caught.value.message == (
        "stage 'f': an index of the update depends on Var 'y' of another dimension, so its region is unbounded"
    )
    assert caught.value.hint == "iterate over y with a reduction domain instead"


@pytest.mark.parametrize(
    ("index", "what"),
    [
        ((y - 1, x), "y - 1 in dimension 0 (y) reaches [-1, 6]"),
        ((y, x + 57), "x + 57 in dimension 1 (x) reaches [57, 64]"),
        ((2 * y, 10 * x), "10 * x in dimension 1 (x) reaches [0, 70]"),
        ((y, a.cast(int32, lut[x])), "int32(lut[x]) in dimension 1 (x) reaches [0, 255]"),
        ((y, a.select(x < 4, x, x + 60)), "select(x < 4, x, x + 60) in dimension 1 (x) reaches [0, 67]"),
    ],
    ids=repr,
)
def test_reads_out_of_range(index: Any, what: str) -> None:
    f = func(img[index])
    with pytest.raises(BoundsError) as caught:
        bound(f, y=(0, 8), x=(0, 8))
    error = caught.value
    assert error.message == f"stage 'f' reads input 'img' out of range: index {what}, but the input has [0, 63]"
    assert error.hint == (
        "give img a boundary condition (img.clamped()), clamp the index, compare it with both ends in a select, or "
        "shrink the output box (over)"
    )
    assert error.location is not None and error.location.text == "f[dims or (y, x)] = value"


def test_the_other_arm_of_a_select_is_not_guarded() -> None:
    with pytest.raises(BoundsError, match=r"index x - 1 in dimension 1 \(x\) reaches \[-1, -1\]"):
        bound(func(a.select(x > 0, 0, img[y, x - 1])), y=(0, 8), x=(0, 8))


def test_reads_in_update_indices_are_checked() -> None:
    f, r = Func("hist"), RDom("r", k=65)
    f[x] = 0
    f[lut[r.k]] += 1
    with pytest.raises(
        BoundsError, match=r"reads input 'lut' out of range: index r\.k in dimension 0 \(x\) reaches \[0, 64\]"
    ):
        bound(f, x=(0, 256))


def test_empty_domains_do_nothing() -> None:
    g = func(img[y - 100, x], name="g")
    f, r = Func("f"), RDom("r", k=(5, img.shape[0] - 60))
    f[y, x] = 0.0
    f[r.k - 1000, x] = f[r.k - 1000, x] + g[r.k, x] + img[-r.k, x]
    found = bound(f, y=(0, 8), x=(0, 8))
    assert found.stage("f", 1).is_empty and found.stage("f", 1).loop("r.k").extent == 0
    assert found.funcs["f"].region == ((0, 7), (0, 7)) and "g" not in found.funcs
    with pytest.raises(BoundsError):
        bound(f, {"img": (80, 64)}, y=(0, 8), x=(0, 8))


def test_domains_from_shapes_and_parameters() -> None:
    n = Param("n", int64)
    f, r = Func("f"), RDom("r", k=(n, img.shape[1] // 2 + n))
    f[y] = 0.0
    f[y] = f[y] + img[y, r.k]
    found = bound(f, {"img": (5, 12)}, {"n": 2}, y=(0, 5))
    assert (found.stage("f", 1).loop("r.k").lo, found.stage("f", 1).loop("r.k").hi) == (2, 7)
    assert found.specialised == {"n": 2} and found.scalars == ()
    assert (
        found.key
        != bound(f, {"img": (5, 12)}, {"n": 3}, y=(0, 5)).key
        != bound(f, {"img": (5, 14)}, {"n": 2}, y=(0, 5)).key
    )


def test_key() -> None:
    gain = Param("gain", float32)
    found = bound(func(img[y, x] * gain), {"img": (5, 12)}, {"gain": 2.0}, y=(0, 5), x=(0, 12))
    assert (
        found.key
        == bound(func(img[y, x] * gain, name="other"), {"img": (5, 12)}, {"gain": 3.0}, y=(0, 5), x=(0, 12)).key
    )
    assert [p.name for p in found.scalars] == ["gain"]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, "shapes of pipeline 'pipeline': missing 'img'; its inputs are img"),
        ({"img": (8, 8), "b": (3,)}, "shapes of pipeline 'pipeline': unknown 'b'; its inputs are img"),
        ({"img": (8,)}, "input 'img' needs 2 dimensions (y, x), got shape (8,)"),
        ({"img": (8, -1)}, "input 'img' has impossible shape (8, -1): extents must not be negative"),
        (
            {"img": (1 << 31, 1 << 31)},
            f"input 'img' has impossible shape ({1 << 31}, {1 << 31}): arrays must have less than 2**62 bytes",
        ),
        ({"img": (8, 2.5)}, "the shape of input 'img' is (8, 2.5): give a tuple of integers"),
        ({"img": "88"}, "the shape of input 'img' is '88': give a tuple of integers"),
        ({"img": 8}, "the shape of input 'img' is 8: give a tuple of integers"),
        ({"img": None}, "the shape of input 'img' is None: give a tuple of integers"),
    ],
)
def test_shapes_refused(shapes: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        bound(func(img[y, x]), shapes, y=(0, 1), x=(0, 1))
    assert str(caught.value) == message


def test_numpy_integers_are_extents() -> None:
    assert bound(func(img[y, x]), {"img": np.array([3, 4])}).funcs["f"].region == ((0, 2), (0, 3))


def test_empty_output_box() -> None:
    f = func(img[y, x])
    found = bound(f, {"img": (8, 8)}, y=(0, 8), x=(4, img.shape[1] - 4))
    assert found.funcs["f"].extents == (8, 0) and not found.funcs["f"].nonempty_stages
    message = r"output 'f' has a negative extent: x ranges over \[5, 4\) for shapes {'img': \(8, 8\)}"
    with pytest.raises(InputError, match=message):
        bound(f, {"img": (8, 8)}, y=(0, 8), x=(5, img.shape[1] - 4))


def test_more_iterations_than_64_bits_count() -> None:
    f, r = Func("f"), RDom("r", i=1 << 32, j=1 << 32)
    f[x] = a.cast("int64", 0)
    f[x] += a.cast("int64", (r.i + r.j + x) % 5)
    with pytest.raises(BoundsError, match=r"stage 'f' has more than \d+ iterations: x of 3, r.i of 4294967296, r.j of"):
        bound(f, {}, x=(0, 3))


def test_sizes_beyond_64_bits() -> None:
    f = func(a.cast(float32, x))
    with pytest.raises(BoundsError, match=r"'f' is needed over .*: too large"):
        bound(f, {}, y=(0, 1 << 39), x=(0, 1 << 39))
    g = func(f[y * (1 << 30), x], name="g")
    with pytest.raises(BoundsError, match=r"stage 'g' needs 'f' over .*: too large"):
        bound(g, {}, y=(0, 1 << 12), x=(0, 8))
    h, r = Func("h"), RDom("r", k=1 << 41)
    h[x] = 0
    h[x] = h[x] + r.k
    with pytest.raises(BoundsError, match=r"r\.k of 'h' has 2199023255552 iterations"):
        bound(h, {}, x=(0, 8))


def test_output_without_dimensions() -> None:
    f = Func("total")
    f[()] = a.sum(img[0, (r := RDom("r", k=img.shape[1])).k], over=r)
    found = bound(f, {"img": (1, 7)})
    assert found.funcs["total"].region == () and found.funcs["total"].extents == ()
    assert output_boxes(Pipeline(f), {"img": (1, 7)}) == {f: ()}


def test_equal_loads_count_once() -> None:
    table = func(a.cast(float32, x), x, name="table")
    found = bound(func(table[lut[x]] + table[lut[x]] * img[y, x] + img[y, x + 0]), y=(0, 8), x=(0, 8))
    assert found.stage("f", 0).load_counts == {"table": 1, "lut": 1, "img": 1}


def test_reads_of_store_indices_count() -> None:
    f, r = Func("f"), RDom("r", k=8)
    f[x] = 0
    f[lut[r.k]] = 1
    assert bound(f, x=(0, 8)).stage("f", 1).load_counts == {"lut": 1}


def test_box_that_depends_on_data_is_refused() -> None:
    from autosched.lang.expr import Const, Load
    from autosched.lang.func import Output

    f = func(img[y, x])
    data = Load(lut, (Const(0, int32),), uint8)  # a box that `over` would refuse
    with pytest.raises(DSLError, match="the box of output 'f' in x depends on more than shapes and parameters"):
        bind(
            Pipeline(Output(f, ((Const(0, int32), Const(3, int32)), (Const(0, int32), data)))),
            {"img": (8, 8), "lut": (3,)},
        )


def scan(row: Any, column: Any, rows: int = 9, columns: int = 13) -> Func:
    f, r = Func("f"), RDom("r", y=(1, rows))
    f[y, x] = img[y, x]
    f[r.y, x] = f[row(r.y), column(x)] + 1.0
    return f


@pytest.mark.parametrize("column", [lambda v: 12 - v, lambda v: v // 2, lambda v: a.clamp(v + 3, 0, 12)])
def test_scans_over_rows_have_steps(column: Any) -> None:
    update = bound(scan(lambda v: v - 1, column), {"img": (9, 13)}, y=(0, 9), x=(0, 13)).stage("f", 1)
    assert update.steps == ("r.y",)
    assert [(d.name, d.parallel, d.in_step) for d in update.loops] == [("x", False, True), ("r.y", False, False)]


def test_regions_of_scans_include_self_reads_beside_the_box() -> None:
    found = bound(scan(lambda v: v - 1, lambda v: 12 - v), {"img": (9, 13)}, y=(0, 9), x=(0, 3))
    assert found.funcs["f"].region == ((0, 8), (0, 12)) and found.funcs["f"].fixed == ((0, 8), (0, 12))
    assert found.funcs["f_cropped"].region == ((0, 8), (0, 2))
    found = bound(scan(lambda v: v - 1, lambda v: a.clamp(v + 1, 0, 999)), {"img": (9, 1000)}, y=(0, 9), x=(5, 8))
    assert found.funcs["f"].region == ((0, 8), (0, 999))  # not column by column


def test_a_scan_that_reads_its_own_row_is_refused() -> None:
    f = scan(lambda v: a.min(v, 100), lambda v: a.clamp(v + 1, 0, 12))
    with pytest.raises(DSLError, match=r"(?s)'f' reads itself at other points of dimension 'x'.*no order.*f\[r.y - 1"):
        bound(f, {"img": (9, 13)}, y=(0, 9), x=(0, 13))


def test_a_scan_that_reads_ever_further_out_is_refused() -> None:
    with pytest.raises(BoundsError, match=r"(?s)further out in every iteration, in dimension 'x'.*clamp\(x"):
        bound(scan(lambda v: v - 1, lambda v: v - 1), {"img": (9, 13)}, y=(0, 9), x=(0, 13))


def test_a_scan_with_unbounded_data_dependent_columns_is_refused() -> None:
    far = Input("far", int64, 1)
    f = scan(lambda v: v - 1, lambda v: far[v])
    with pytest.raises(BoundsError, match="depends on data and has no useful range"):
        bound(f, {"img": (9, 13), "far": (13,)}, y=(0, 9), x=(0, 13))
