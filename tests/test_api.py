"""From a pipeline to arrays through the public API."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import autosched
from autosched import Func, Input, Param, Pipeline, RDom, ScheduledPipeline, Var, float32, int32, uint8
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.types import Schedule

ROOT = Path(__file__).parents[1]
SHAPE = (13, 21)

needs_nvrtc = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")


def blur() -> Pipeline:
    y, x = Var("y"), Var("x")
    img = Input("img", float32, 2)
    clamped = img.clamped()
    rows, blurred = Func("rows"), Func("blurred")
    rows[y, x] = (clamped[y, x - 1] + clamped[y, x] + clamped[y, x + 1]) / 3
    blurred[y, x] = (rows[y - 1, x] + rows[y, x] + rows[y + 1, x]) / 3
    height, width = img.shape
    return Pipeline(blurred.over(y=(0, height), x=(0, width)), name="blur")


def scaled() -> Pipeline:
    """Two run-time parameters, one with a default."""
    y, x = Var("y"), Var("x")
    img = Input("img", float32, 2)
    gain, offset = Param("gain", float32, 2.0), Param("offset", float32)
    f = Func("f")
    f[y, x] = img[y, x] * gain + offset
    height, width = img.shape
    return Pipeline(f.over(y=(0, height), x=(0, width)), name="scaled")


def shifted() -> Pipeline:
    """A parameter that reaches an index."""
    x = Var("x")
    img = Input("img", float32, 1)
    by = Param("by", int32, 1)
    f = Func("f")
    f[x] = img.clamped()[x + by]
    return Pipeline(f.over(x=(0, img.shape[0])), name="shifted")


def statistics() -> Pipeline:
    """An output with two components, and one of no dimension."""
    x = Var("x")
    img = Input("img", float32, 1)
    r = RDom("r", i=img.shape[0])
    both, total = Func("both"), Func("total")
    both[x] = (img[x] * 2, img[x] + 1)
    total[()] = autosched.sum(img[r.i], over=r)
    return Pipeline([both.over(x=(0, img.shape[0])), total], name="statistics")


def image(shape: tuple[int, ...] = SHAPE) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).random(shape, np.float32)


@pytest.mark.parametrize("target", ["cpu", "h200"])
@pytest.mark.parametrize("backend", ["cpu", "emulator", "interpreter"])
def test_backends_agree(backend: str, target: str) -> None:
    img = image()
    kernel = autosched.schedule(blur(), shapes={"img": SHAPE}, target=target, strategy="roots").compile(backend)
    assert kernel.backend == backend
    np.testing.assert_array_equal(kernel(img=img), autosched.interpret(blur(), {"img": img})["blurred"])


def test_module_is_a_function_too() -> None:
    scheduled = autosched.schedule(blur(), {"img": SHAPE}, "cpu", strategy="roots")
    assert isinstance(scheduled, ScheduledPipeline)
    assert isinstance(scheduled.schedule, Schedule)
    assert autosched.schedule.types.Schedule is Schedule  # type: ignore[attr-defined]


def test_import_is_light_and_names_come_on_demand() -> None:
    code = (
        "import sys, autosched\n"
        "assert 'autosched.api' not in sys.modules and 'autosched.lower' not in sys.modules\n"
        "for name in autosched.__all__: getattr(autosched, name)\n"
        "assert {'schedule', 'Target'} <= set(dir(autosched))\n"
        "import autosched.schedule.types\n"
        "assert callable(autosched.schedule)\n"
        "print('torch' in sys.modules, 'cupy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "False False\n"


def test_unknown_name_of_the_package() -> None:
    with pytest.raises(AttributeError, match="shedule"):
        autosched.shedule  # noqa: B018


def test_shapes_from_arrays() -> None:
    scheduled = autosched.schedule(blur(), inputs={"img": image((5, 7))}, target="cpu", strategy="roots")
    assert scheduled.bound.shapes == {"img": (5, 7)}


def test_default_backend_is_c_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.runtime.backends.factory.gpu_problem", lambda: "there is none")
    assert autosched.schedule(blur(), {"img": SHAPE}, "h200", strategy="roots").compile().backend == "cpu"


def test_schedule_for_the_cpu_never_goes_to_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.runtime.backends.factory.gpu_problem", lambda: "")
    assert autosched.schedule(blur(), {"img": SHAPE}, "cpu", strategy="roots").compile().backend == "cpu"


def test_without_a_compiler_the_interpreter_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CC", "AUTOSCHED_CC"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("autosched.runtime.backends.factory.gpu_problem", lambda: "there is none")
    assert not have_compiler("c")
    with pytest.warns(RuntimeWarning, match="no C compiler was found.*set AUTOSCHED_CC"):
        kernel = autosched.schedule(blur(), {"img": SHAPE}, strategy="roots").compile()
    assert kernel.backend == "interpreter"
    assert kernel(img=image()).shape == SHAPE


def test_several_outputs_come_as_a_named_tuple() -> None:
    img = image((9,))
    result = autosched.schedule(statistics(), inputs={"img": img}, target="cpu", strategy="roots").compile()(img=img)
    assert result._fields == ("both_0", "both_1", "total")
    np.testing.assert_array_equal(result.both_0, img * 2)
    np.testing.assert_array_equal(result.both_1, img + 1)
    assert result.total.shape == ()


def test_out_is_filled_and_returned() -> None:
    img, out = image(), np.empty(SHAPE, np.float32)
    kernel = autosched.schedule(blur(), {"img": SHAPE}, "cpu", strategy="roots").compile()
    assert kernel(img=img, out=out) is out
    np.testing.assert_array_equal(out, kernel(img=img))


@pytest.mark.parametrize("form", [list, tuple, dict])
def test_several_outs(form: type) -> None:
    img = image((9,))
    outs = [np.empty(9, np.float32), np.empty(9, np.float32), np.empty((), np.float32)]
    names = ("both_0", "both_1", "total")
    kernel = autosched.schedule(statistics(), inputs={"img": img}, target="cpu", strategy="roots").compile()
    result = kernel(img=img, out=dict(zip(names, outs, strict=True)) if form is dict else form(outs))
    assert all(a is b for a, b in zip(result, outs, strict=True))
    np.testing.assert_array_equal(outs[0], img * 2)


def test_torch_in_torch_out() -> None:
    img = torch.from_numpy(image())
    kernel = autosched.schedule(blur(), inputs={"img": img}, target="cpu", strategy="roots").compile()
    result = kernel(img=img)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.numpy(), kernel(img=img.numpy()))


@pytest.mark.parametrize("backend", ["cpu", "emulator", "interpreter"])
def test_parameters(backend: str) -> None:
    img = image()
    kernel = autosched.schedule(scaled(), {"img": SHAPE}, "h200", strategy="roots").compile(backend)
    np.testing.assert_array_equal(kernel(img=img, offset=1), img * 2 + 1)
    np.testing.assert_array_equal(kernel(img=img, offset=1, gain=np.float64(3)), img * 3 + 1)


def test_parameters_given_to_schedule_are_defaults() -> None:
    img = image()
    kernel = autosched.schedule(scaled(), {"img": SHAPE}, "cpu", {"offset": 5.0, "gain": 1}, strategy="roots").compile()
    np.testing.assert_array_equal(kernel(img=img), img + 5)
    np.testing.assert_array_equal(kernel(img=img, offset=0.0), img)


def test_parameter_in_an_index_is_built_in() -> None:
    img = image((9,))
    kernel = autosched.schedule(shifted(), {"img": (9,)}, "cpu", {"by": 2}, strategy="roots").compile()
    np.testing.assert_array_equal(kernel(img=img), img[[2, 3, 4, 5, 6, 7, 8, 8, 8]])
    np.testing.assert_array_equal(kernel(img=img, by=2), kernel(img=img))


def test_names_that_cannot_be_keywords_go_in_a_dict() -> None:
    x = Var("x")
    source = Input("out", uint8, 1)
    f = Func("f")
    f[x] = source[x] + 1
    kernel = autosched.schedule(Pipeline(f), {"out": (3,)}, "cpu", strategy="roots").compile()
    np.testing.assert_array_equal(kernel({"out": np.array([1, 2, 255], np.uint8)}), [2, 3, 0])


def test_pipeline_without_inputs() -> None:
    x = Var("x")
    f = Func("f")
    f[x] = autosched.cast(float32, x * x)
    kernel = autosched.schedule(Pipeline(f.over(x=(-2, 3))), target="cpu", strategy="roots").compile()
    np.testing.assert_array_equal(kernel(), np.array([4, 1, 0, 1, 4], np.float32))


def test_calls_from_many_threads() -> None:
    kernel = autosched.schedule(blur(), {"img": (64, 64)}, "cpu", strategy="roots").compile()
    images = [np.full((64, 64), i, np.float32) for i in range(8)]
    expected = [kernel(img=img) for img in images]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(20):
            if not np.array_equal(kernel(img=images[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_save_and_load(tmp_path: Path) -> None:
    scheduled = autosched.schedule(blur(), {"img": SHAPE}, "h200", strategy="roots")
    scheduled.save(tmp_path / "blur.json")
    loaded = autosched.load_schedule(tmp_path / "blur.json", blur(), {"img": SHAPE}, "h200")
    assert loaded.schedule == scheduled.schedule
    assert [path.name for path in tmp_path.iterdir()] == ["blur.json"]


def test_text_names_stages_and_loops() -> None:
    text = autosched.schedule(blur(), {"img": SHAPE}, "h200", strategy="roots").text()
    assert "rows[y, x]" in text and "block" in text and "threadIdx.x" in text


@needs_nvrtc
def test_whole_cuda_source_compiles() -> None:
    source = autosched.schedule(blur(), {"img": SHAPE}, "h200", strategy="roots").source()
    assert set(compile_cubin(source, "sm_90").kernels) == {"blur_rows", "blur_blurred"}


def test_c_source_is_complete() -> None:
    source = autosched.schedule(blur(), {"img": SHAPE}, "cpu", strategy="roots").source("cpu")
    assert "as_run" in source and "blur_blurred" in source


@needs_nvrtc
def test_compiles_for_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = autosched.schedule(blur(), {"img": SHAPE}, "h200", strategy="roots").compile("cuda")
    assert [r.name for r in kernel.resources] == ["blur_rows", "blur_blurred"]
    assert all(0 < (r.registers or 0) < 256 and r.spill_bytes == 0 for r in kernel.resources)

    def no_gpu() -> None:
        raise autosched.LaunchError("no kernel can be launched on a GPU here")

    monkeypatch.setattr("autosched.runtime.call.launcher.gpu_driver", no_gpu)
    monkeypatch.setattr("autosched.runtime.backends.cuda.gpu_driver", no_gpu)
    with pytest.raises(autosched.LaunchError, match="no kernel can be launched"):
        kernel(img=image())


def test_resources_of_the_cpu() -> None:
    scheduled = autosched.schedule(blur(), {"img": SHAPE}, "h200", strategy="roots")
    (rows, blurred) = scheduled.compile("cpu").resources
    assert rows.block == (32, 8, 1) or rows.block == (21, 8, 1)
    assert rows.registers is None and blurred.shared_bytes == 0
    assert scheduled.compile("interpreter").resources == ()


def test_what_is_shown() -> None:
    scheduled = autosched.schedule(blur(), {"img": SHAPE}, "h200", strategy="roots")
    assert repr(scheduled) == "<ScheduledPipeline blur: 2 kernels for H200>"
    shown = repr(scheduled.compile("cpu"))
    assert shown == "<CompiledPipeline blur(img: float32[13, 21]) -> blurred: float32[13, 21], backend cpu>"
