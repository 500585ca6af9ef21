"""Arrays without elements, and reductions over nothing: results at once, and the identity of each reduction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched.lang.dtypes import ALL, DType
from autosched.lang.func import Func
from autosched.schedule.legality.validate import validate
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.target import get_target
from tests.regression.test_witnesses import agree

Array = np.ndarray[Any, Any]
x, y = a.Var("x"), a.Var("y")
row, image = a.Input("row", a.float32, 1), a.Input("image", a.float32, 2)
EMPTY = np.zeros(0, np.float32)
ONES = np.ones(4, np.float32)
STRATEGIES = ("roots", "beam", "sioutas", None)


def scaled() -> Func:
    """Return a Func with the image's shape that reads another one of that shape."""
    g, f = Func("g"), Func("f")
    g[y, x] = image.clamped()[y, x] * 2
    f[y, x] = g[y, x] + g[y, x] * image[y, x]
    return f


def box(f: Func) -> Any:
    return f.over(y=(0, image.shape[0]), x=(0, image.shape[1]))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (1, 1), (1, 5)])
@pytest.mark.parametrize("declared", [False, True])
def test_images(shape: tuple[int, int], declared: bool) -> None:
    values = np.full(shape, 3, np.float32)
    found = agree(box(scaled()) if declared else scaled(), {"image": values})["f"]
    assert found.shape == shape and (found == 24).all()


@pytest.mark.parametrize("target", ["h200", "cpu"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_everything_that_a_schedule_does(target: str, strategy: str | None, tmp_path: Path) -> None:
    total, r = Func("total"), a.RDom("r", k=image.shape[0])
    total[x] = a.sum(image[r.k, 0] + 1, over=r)
    pipeline = a.Pipeline([box(scaled()), total.over(x=(0, 2))])
    inputs = {"image": np.zeros((0, 5), np.float32)}
    found = a.schedule(pipeline, inputs=inputs, target=target, strategy=strategy, samples=2, reuse=False)
    assert {f for k in found.schedule.kernels for f in k.root_funcs} <= {"sum", "total"}
    assert "total" in found.text() and "total" in found.source("cpu" if target == "cpu" else "cuda")
    found.save(tmp_path / "s.json")
    again = a.load_schedule(tmp_path / "s.json", pipeline, inputs=inputs, target=target)
    assert again.schedule == found.schedule
    found.report(tmp_path / "r.html")
    assert "total" in (tmp_path / "r.html").read_text()
    kernel = found.compile("cpu" if target == "cpu" else "emulator")
    outputs = kernel(inputs)
    assert outputs.f.shape == (0, 5) and outputs.total.tolist() == [0, 0]
    kernel(inputs, out=(np.empty((0, 5), np.float32), line := np.full(2, 7, np.float32)))
    assert line.tolist() == [0, 0]
    for seed in range(3):
        drawn = sample_schedule(found.bound, get_target(target), np.random.default_rng(seed))
        validate(found.bound, drawn, get_target(target))


@pytest.mark.parametrize("target", ["h200", "cpu"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_launched_or_compiled(target: str, strategy: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = {"image": np.zeros((4, 0), np.float32)}
    found = a.schedule(a.Pipeline(scaled()), inputs=inputs, target=target, strategy=strategy, reuse=False)
    assert found.schedule.kernels == ()

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("something is compiled")

    monkeypatch.setattr("autosched.runtime.backends.cpu.compile_shared_library", refuse)
    monkeypatch.setattr("autosched.runtime.emulator.native.compile_shared_library", refuse)
    monkeypatch.setattr("autosched.runtime.backends.cuda.compile_many", refuse)
    for backend in ("cpu",) if target == "cpu" else ("cpu", "emulator", "interpreter"):
        kernel = found.compile(backend)
        assert kernel(inputs).shape == (4, 0) and kernel(inputs).dtype == np.float32
        assert kernel.resources == ()
    if target == "h200":
        assert found.compile("cuda").resources == ()


@pytest.mark.parametrize("dtype", [d for d in ALL if d.kind != "b"], ids=str)
def test_identities(dtype: DType) -> None:
    source = a.Input("source", dtype, 2)
    r = a.RDom("r", k=source.shape[1])
    names = ("sum", "prod", "minimum", "maximum")
    funcs = [Func(f"f_{name}") for name in names]
    for name, f in zip(names, funcs, strict=True):
        f[x] = getattr(a, name)(source[x, r.k], over=r)
    found = agree([f.over(x=(0, 3)) for f in funcs], {"source": np.zeros((3, 0), dtype.numpy)})
    low, high = (-np.inf, np.inf) if dtype.is_float else (dtype.min_value, dtype.max_value)
    for name, identity in zip(names, (0, 1, high, low), strict=True):
        assert (found[f"f_{name}"] == np.full(3, identity, dtype.numpy)).all(), name


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_coordinates_of_nothing_are_refused(name: str) -> None:
    found, r = Func("found"), a.RDom("r", y=2, x=(1, image.shape[1]))
    found[()] = getattr(a, name)(image[r.y, r.x], over=r)
    pipeline = a.Pipeline(found)
    message = rf"'{name}' is an argmin or argmax over nothing: r\.x ranges over \[1, 1\) for these shapes"
    with pytest.raises(a.BoundsError, match=message):
        a.schedule(pipeline, {"image": (2, 1)}, "h200", strategy="roots", reuse=False)
    with pytest.raises(a.BoundsError, match=f"{name} is an argmin or argmax over a domain without points"):
        a.interpret(a.Pipeline(found.over()), {"image": np.zeros((2, 1), np.float32)})
    assert int(agree(found, {"image": np.zeros((2, 2), np.float32)})["found_1"]) == 1


def test_coordinates_for_no_rows_are_none() -> None:
    found, r = Func("found"), a.RDom("r", x=image.shape[1])
    found[y] = a.argmax(image[y, r.x], over=r)
    arrays = agree(found.over(y=(0, image.shape[0])), {"image": np.zeros((0, 0), np.float32)})
    assert [v.shape for v in arrays.values()] == [(0,), (0,)]


def test_a_selection_with_values_of_its_own_keeps_them() -> None:
    best, r = Func("best"), a.RDom("r", k=row.shape[0])
    best[()] = (-1, 0.0)
    better = row[r.k] > best[()][1]
    best[()] = (a.select(better, r.k, best[()][0]), a.select(better, row[r.k], best[()][1]))
    found = agree(best, {"row": EMPTY})
    assert int(found["best_0"]) == -1


def updated(f: Func) -> None:
    f[x] = row[x]
    f[a.RDom("r", k=(1, row.shape[0])).k] += 1.0
    f[x] += f[x]


def scanned(f: Func) -> None:
    r = a.RDom("r", k=(1, row.shape[0]))
    f[x] = row[x]
    f[r.k] = f[r.k] + f[r.k - 1]


def undefined(f: Func) -> None:
    f[x] = a.undef(a.float32)
    f[a.RDom("r", k=row.shape[0]).k] = 1.0


def two_values(f: Func) -> None:
    f[x] = row[x], a.cast(a.int32, row[x])


@pytest.mark.parametrize("define", [updated, scanned, undefined, two_values])
@pytest.mark.parametrize("length", [0, 1])
def test_updates(define: Any, length: int) -> None:
    f = Func("f")
    define(f)
    found = agree(f.over(x=(0, row.shape[0])), {"row": ONES[:length]})
    assert all(v.shape == (length,) for v in found.values())


def test_a_histogram_of_nothing() -> None:
    levels = a.Input("levels", a.uint8, 1)
    f = Func("f")
    f[x] = 0
    f[levels[a.RDom("r", k=levels.shape[0]).k] % 8] += 1
    assert (agree(f.over(x=(0, 8)), {"levels": np.zeros(0, np.uint8)})["f"] == 0).all()


def test_an_empty_output_that_others_read() -> None:
    f, g = Func("f"), Func("g")
    f[x] = row[x] + 1
    g[x] = f[x] * f[0]
    found = agree([f.over(x=(2, 2)), g.over(x=(0, 4))], {"row": ONES})
    assert found["f"].shape == (0,) and found["g"].tolist() == [4, 4, 4, 4]


def test_points_fixed_by_an_update_of_nothing() -> None:
    f, n = Func("f"), a.Param("n", a.int32)
    f[x] = row[x]
    f[3] = 1.0
    assert agree(f.over(x=(0, n)), {"row": ONES}, {"n": 0})["f"].shape == (0,)


def test_what_reads_an_empty_array_is_refused() -> None:
    f, g = Func("f"), Func("g")
    f[x] = row[x]
    message = r"index x in dimension 0 \(x\) reaches \[0, 1\], but the input is empty there"
    with pytest.raises(a.BoundsError, match=message):
        a.schedule(a.Pipeline(f.over(x=(0, 2))), {"row": (0,)}, "cpu", strategy="roots", reuse=False)
    g[x] = row.clamped()[x]
    with pytest.raises(a.InputError, match=r"boundary condition 'row_clamped' has the empty range \[0, 0\) in x"):
        a.schedule(a.Pipeline(g.over(x=(0, 2))), {"row": (0,)}, "cpu", strategy="roots", reuse=False)
    with pytest.raises(a.InputError, match=r"'image' has impossible shape \(0, 4611686018427387904\)"):
        a.schedule(a.Pipeline(scaled()), {"image": (0, 1 << 62)}, "cpu", strategy="roots", reuse=False)
