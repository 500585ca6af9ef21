"""`@autosched.jit`: conversion of arguments, kernels per call, and errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import autosched
from autosched import DSLError, Func, Guide, Input, InputError, KernelGuide, Param, RDom, Var, float32, uint8
from autosched import kernel_cache as kernel_cache_module
from autosched.schedule.types import LoopKind

jit = autosched.jit(strategy="roots", backend="interpreter")
y, x = Var("y"), Var("x")


def box(image: Any, gain: Any = 1.0, *, radius: int = 1) -> Any:
    """Sum of neighbours in a row."""
    clamped = image.clamped()
    out = Func("out")
    out[y, x] = sum((clamped[y, x + d] for d in range(-radius, radius + 1)), 0) * gain
    return out


def expected(image: np.ndarray[Any, Any], gain: float = 1.0, radius: int = 1) -> np.ndarray[Any, Any]:
    padded = np.pad(image, ((0, 0), (radius, radius)), mode="edge")
    width = image.shape[1]
    return sum(padded[:, d : d + width] for d in range(2 * radius + 1)) * np.float32(gain)  # type: ignore[no-any-return]


def picture(shape: tuple[int, int] = (5, 9), dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(2).integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize(
    "decorate", [autosched.jit(strategy="roots"), jit, autosched.jit(target="cpu", strategy="roots")]
)
def test_a_call_computes_the_pipeline(decorate: Callable[..., Any]) -> None:
    f = decorate(box)
    np.testing.assert_allclose(f(picture()), expected(picture()), rtol=1e-6)
    np.testing.assert_allclose(f(picture(), 0.5), expected(picture(), 0.5), rtol=1e-6)
    np.testing.assert_allclose(f(image=picture(), gain=2, radius=0), expected(picture(), 2, 0), rtol=1e-6)


def test_without_options_the_function_alone_is_decorated() -> None:
    f = autosched.jit(box)
    assert isinstance(f, autosched.JitFunction)
    assert f.pipeline(picture()).output_names == ("out",)


def test_it_looks_like_the_function() -> None:
    f = jit(box)
    assert (f.__name__, f.__doc__, f.__module__) == ("box", "Sum of neighbours in a row.", __name__)
    assert f.__wrapped__ is box  # type: ignore[attr-defined]
    assert repr(f).startswith("<JitFunction box(image: ")


def test_results_are_in_the_callers_framework() -> None:
    f = jit(box)
    tensor = f(torch.from_numpy(picture()))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), expected(picture()), rtol=1e-6)
    assert isinstance(f(picture()), np.ndarray)
    assert f.cache_info().currsize == 1, "the framework makes no other kernel"


def test_a_kernel_is_made_for_each_type_shape_and_structure() -> None:
    f = jit(box)
    f(picture())
    f(picture(), 3.0)
    f(picture(), 3.5)
    assert f.cache_info() == (2, 1, 1), "another value of a number is the same kernel"
    f(picture((4, 9)))
    f(picture(dtype="float64"))
    f(picture(), radius=2)
    f(picture(), 3)
    f(picture(), np.float64(3))
    assert f.cache_info() == (2, 6, 6)
    f.clear()
    assert f.cache_info() == (0, 0, 0)
    f(picture())
    assert f.cache_info() == (0, 1, 1)


def test_a_pipeline_serves_all_shapes() -> None:
    f = jit(box)
    assert f.pipeline(picture()) is f.pipeline(picture((4, 4)))
    assert f.pipeline(picture()) is not f.pipeline(picture(), radius=2)
    assert f.cache_info().currsize == 0, "nothing is compiled for it"


def test_schedule_and_kernel_can_be_looked_at() -> None:
    f = jit(box)
    scheduled = f.scheduled(picture())
    assert "out[y 5, x 9]" in scheduled.text() and scheduled.target.kind == "cpu"
    assert f.cache_info().currsize == 0
    kernel = f.compiled(picture())
    assert kernel.backend == "interpreter" and kernel.signature.inputs[0].shape == (5, 9)
    assert f.scheduled(picture()) is scheduled and f.compiled(picture()) is kernel


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (2.0, "float32"),
        (2, "int32"),
        (1 << 40, "int64"),
        (True, "bool"),
        (np.uint8(2), "uint8"),
        (np.float64(2), "float64"),
    ],
)
def test_types_of_numbers(value: Any, dtype: str) -> None:
    (param,) = jit(box).pipeline(picture(), value).params
    assert (param.name, str(param.dtype)) == ("gain", dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_float_is_as_wide_as_the_widest_array(dtype: str) -> None:
    (param,) = jit(box).pipeline(picture(dtype=dtype), 2.0).params
    assert str(param.dtype) == dtype
    assert jit(box)(picture(dtype=dtype), 2.0).dtype == dtype
    (param,) = jit(box).pipeline(picture(dtype="uint8"), 2.0).params
    assert str(param.dtype) == "float32"


def test_a_number_that_reaches_an_index_is_built_in() -> None:
    @jit
    def shifted(line: Any, by: int) -> Any:
        out = Func("out")
        out[x] = line.clamped()[x + by]
        return out.over(x=(0, line.shape[0]))

    line = np.arange(5, dtype=np.uint8)
    assert shifted(line, 1).tolist() == [1, 2, 3, 4, 4]
    assert shifted(line, -2).tolist() == [0, 0, 0, 1, 2]
    assert shifted(line, 1).tolist() == [1, 2, 3, 4, 4]
    assert shifted.cache_info() == (1, 2, 2)
    assert shifted.pipeline(line, 1) is shifted.pipeline(line, -2)
    assert shifted.scheduled(line, 1).bound.specialised == {"by": 1}


def test_several_outputs_are_a_named_tuple() -> None:
    @jit
    def both(a: Any, b: Any) -> Any:
        r = RDom("r", i=a.shape[0])
        total, larger = Func("total"), Func("larger")
        total[()] = autosched.sum(a[r.i], over=r)
        larger[x] = autosched.max(a[x], b[x])
        return total, larger.over(x=(0, b.shape[0]))

    found = both(np.array([1, 5], np.int32), np.array([4, 2], np.int32))
    assert found._fields == ("total", "larger")
    assert int(found.total) == 6 and found.larger.tolist() == [4, 5]


def test_arguments_that_are_not_used_do_not_matter() -> None:
    @jit
    def first(a: Any, b: Any, n: float = 1.0) -> Any:
        f = Func("f")
        f[x] = a[x]
        return f

    a = np.arange(3, dtype=np.float32)
    assert first(a, a[:2]).tolist() == [0, 1, 2]
    first(a, np.zeros(7, np.float32), 5.0)
    assert first.cache_info() == (1, 1, 1)


def test_arrays_of_no_dimensions_and_buffers() -> None:
    @jit
    def scaled(a: Any, by: Any) -> Any:
        f = Func("f")
        f[x] = a[x] * by[()]
        return f

    assert scaled(np.arange(3.0), np.array(2.0)).tolist() == [0, 2, 4]
    assert scaled(memoryview(np.arange(3.0)), np.array(2.0)).tolist() == [0, 2, 4]
    assert scaled.cache_info() == (1, 1, 1)


def test_structure_tells_values_of_several_types_apart() -> None:
    seen = []

    @jit
    def plus(a: Any, *, value: Any) -> Any:
        seen.append(value)
        f = Func("f")
        f[x] = a[x] + (0 if value is None or isinstance(value, str | tuple) else value)
        return f

    a = np.zeros(2, np.float32)
    values: list[Any] = [1, 1.0, True, 0.0, -0.0, None, "1", (1, 2), (1, 2.0), np.float32(1), float("nan")]
    for value in values + values:
        plus.pipeline(a, value=value)
    assert len(seen) == len(values)
    assert plus(a, value=-0.0).tolist() == [0.0, 0.0]


def test_one_search_for_each_key_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    running, searches, most = set[tuple[int, ...]](), [], 0
    schedule = kernel_cache_module.schedule
    both_are_in = threading.Barrier(2, timeout=20)

    def slow(pipeline: Any, shapes: Any, *args: Any, **options: Any) -> Any:
        nonlocal most
        shape = shapes["image"]
        assert shape not in running, "two searches for one key"
        running.add(shape)
        both_are_in.wait()  # different keys do not wait for each other
        most = max(most, len(running))
        time.sleep(0.02)
        searches.append(shape)
        running.discard(shape)
        return schedule(pipeline, shapes, *args, **options)

    f = jit(box)
    monkeypatch.setattr(kernel_cache_module, "schedule", slow)
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda s=shape: results.append((s, f(picture(s)))))  # type: ignore[misc]
        for shape in [(3, 4), (4, 3)] * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(searches) == [(3, 4), (4, 3)] and most == 2
    assert len(results) == 8
    for shape, result in results:
        np.testing.assert_allclose(result, expected(picture(shape)), rtol=1e-6)


def test_a_failed_search_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    f = jit(box)
    with monkeypatch.context() as patch, pytest.raises(InputError, match="out of luck"):

        def fails(*args: Any, **options: Any) -> Any:
            raise InputError("out of luck")

        patch.setattr(kernel_cache_module, "schedule", fails)
        f(picture())
    np.testing.assert_allclose(f(picture()), expected(picture()), rtol=1e-6)


def test_options_reach_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    schedule = kernel_cache_module.schedule

    def spy(pipeline: Any, shapes: Any, target: Any, params: Any, **options: Any) -> Any:
        seen.update(options, target=target, params=params)
        return schedule(pipeline, shapes, target, params, **options)

    f = autosched.jit(target="h200", strategy="roots", seed=7, seconds=1.5, backend="emulator")(box)
    monkeypatch.setattr(kernel_cache_module, "schedule", spy)
    assert f.compiled(picture()).backend == "emulator"
    assert seen == {"target": "h200", "params": {}, "strategy": "roots", "seed": 7, "seconds": 1.5}


def test_a_guide_restricts_the_search(tmp_path: Path) -> None:
    guide = Guide(KernelGuide(threads={"x": 16, "y": 4}))
    file = tmp_path / "guide.json"
    file.write_text(guide.to_json())
    image = picture((32, 64))
    for given in (guide, str(file)):
        guided = autosched.jit(guide=given, target="h200", backend="interpreter", effort="fast")(box)
        scheduled = guided.scheduled(image)
        assert all(t.extent("x", LoopKind.THREAD) == 16 for k in scheduled.schedule.kernels for t in k.tilings())
        assert scheduled.provenance is not None and scheduled.provenance.guide == guide.to_json()
        np.testing.assert_allclose(guided(image), expected(image), rtol=1e-6)
    with pytest.raises(InputError, match="guide is of type int: give a Guide"):
        autosched.jit(guide=3)(box)(image)


@pytest.mark.parametrize("wrong", ["stratgy", "inputs", "shapes"])
def test_options_that_there_are_not(wrong: str) -> None:
    with pytest.raises(InputError, match=rf"there is no option '{wrong}' .*strategy"):
        autosched.jit(**{wrong: 1})


@pytest.mark.parametrize(
    "function", [lambda *images: None, lambda image, **options: None], ids=["positional", "keywords"]
)
def test_parameters_that_collect_arguments_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="a parameter of its own"):
        jit(function)


class TestRefused:
    f = jit(box)

    @pytest.mark.parametrize("value", [None, [[1.0]], "image", {}, object()])
    def test_positional_arguments_that_are_neither_array_nor_number(self, value: object) -> None:
        with pytest.raises(InputError, match=r"argument 'image' of 'box': a value of type .* neither array nor number"):
            self.f(value)

    def test_parts_of_pipelines(self) -> None:
        with pytest.raises(InputError, match=r"call box\.__wrapped__"):
            self.f(Input("image", float32, 2))

    def test_arrays_that_are_not_contiguous(self) -> None:
        with pytest.raises(InputError, match=r"not C-contiguous.*np.ascontiguousarray\(image\)"):
            self.f(picture().T)
        with pytest.raises(InputError, match=r"not C-contiguous.*image.contiguous\(\)"):
            self.f(torch.from_numpy(picture()).T)
        assert self.f.cache_info().currsize == 0, "before a schedule is sought"

    def test_tensors_that_require_grad(self) -> None:
        with pytest.raises(InputError, match=r"requires grad.*image.detach\(\)"):
            self.f(torch.ones(3, 3, requires_grad=True))

    def test_elements_that_pipelines_do_not_know(self) -> None:
        with pytest.raises(InputError, match="'image' has elements of type complex64; pipelines know"):
            self.f(picture().astype(np.complex64))
        with pytest.raises(InputError, match="'image' has elements of type float8_e5m2"):
            self.f(torch.ones(3, 3, dtype=torch.float8_e5m2))

    def test_arrays_on_several_devices(self) -> None:
        @jit
        def add(a: Any, b: Any) -> Any:
            raise AssertionError("not reached")

        with pytest.raises(InputError, match="lie on several devices: 'a' on the CPU, 'b' on meta:0"):
            add(torch.ones(3), torch.ones(3, device="meta"))

    def test_wrong_numbers_of_arguments(self) -> None:
        with pytest.raises(TypeError, match="missing a required argument: 'image'"):
            self.f()
        with pytest.raises(TypeError, match="unexpected keyword argument 'radus'"):
            self.f(picture(), radus=1)

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ([1], "must be hashable, and a list is not: pass a tuple"),
            (np.ones(3), "cannot be of type ndarray: pass it by position"),
            (torch.ones(3), "cannot be of type Tensor: pass it by position"),
            (Param("n", uint8), "cannot be of type Param: pass it by position"),
            ((1, [2]), "must be hashable"),
        ],
    )
    def test_structure_that_is_no_plain_value(self, value: object, problem: str) -> None:
        with pytest.raises(InputError, match=f"keyword-only argument 'radius' of 'box' .*{problem}"):
            self.f(picture(), radius=value)

    @pytest.mark.parametrize("returned", [None, 3, Input("i", float32, 1), np.ones(3)])
    def test_functions_that_return_no_func(self, returned: object) -> None:
        @jit
        def nothing(a: Any) -> Any:
            return returned

        with pytest.raises(DSLError, match="jit function 'nothing' returns a value of type"):
            nothing(picture())

    def test_funcs_made_outside(self) -> None:
        outside = Func("outside")

        @jit
        def build(a: Any) -> Any:
            if not outside.is_defined:
                outside[x] = a[x]
            return outside

        with pytest.raises(DSLError, match="Func 'outside' was made outside the jit function 'build'") as raised:
            build(np.ones(3))
        assert "test_jit.py" in str(raised.value)

    def test_inputs_and_params_made_outside(self) -> None:
        image, factor = Input("image", float32, 1), Param("factor", float32, 1.0)

        @jit
        def build(a: Any) -> Any:
            f = Func("f")
            f[x] = a[x] * factor + image[x]
            return f

        with pytest.raises(DSLError, match="Input 'image' is no parameter of the jit function 'build'"):
            build(np.ones(3, np.float32))

    def test_no_reads_outside_the_arrays(self) -> None:
        @jit
        def behind(a: Any) -> Any:
            f = Func("f")
            f[x] = a[x + 1]
            return f.over(x=(0, a.shape[0]))

        with pytest.raises(autosched.BoundsError, match="out of range"):
            behind(np.ones(3, np.float32))


def test_a_refused_function_can_be_called_again() -> None:
    calls = 0

    @jit
    def flaky(a: Any) -> Any:
        nonlocal calls
        calls += 1
        f = Func("f")
        f[x] = a[x]
        return f if calls > 1 else None

    with pytest.raises(DSLError):
        flaky(np.ones(2))
    assert flaky(np.ones(2)).tolist() == [1, 1]


@pytest.mark.gpu
def test_on_the_gpu_where_the_arrays_lie() -> None:
    import cupy

    f = autosched.jit(strategy="roots")(box)
    result = f(cupy.asarray(picture()))
    assert isinstance(result, cupy.ndarray)
    np.testing.assert_allclose(cupy.asnumpy(result), expected(picture()), rtol=1e-6)
    assert f.compiled(cupy.asarray(picture())).backend == "cuda"
    assert f.compiled(picture()).backend == "cpu"
    assert f.cache_info().currsize == 2
