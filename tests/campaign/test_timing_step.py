"""Times of schedules: cold and warm, on a processor, a simulated GPU, and a fake CuPy."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from campaign import roofline_microbenchmarks, timing
from campaign.minimum_work import float_operations, least_instructions, work_of
from campaign.problems import problem_of
from campaign.roofline_microbenchmarks import CHAINS, SOURCE, floor_seconds, gpu_ceilings
from campaign.search import hash_of
from campaign.timing import Stopwatch, Timed
from campaign.warm_timing import EventClock, HostClock, timed

from autosched import Func, Input, Pipeline, Var
from autosched.analysis.bind import bind
from autosched.lang.dtypes import float32, float64, uint8
from autosched.lang.expr import Expr
from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.simulated.version import simulated_source
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target, get_target
from tests.campaign.tiny_campaign import context, options, run

H200 = get_target("h200")
needs_nvrtc = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")


class Steady:
    """A clock with given durations of calls, starting with the warm-up."""

    def __init__(self, *seconds: float) -> None:
        self.seconds_, self.calls = list(seconds), list[int]()

    def seconds(self, call: Any, calls: int) -> float:
        self.calls.append(calls)
        return self.seconds_.pop(0) if len(self.seconds_) > 1 else self.seconds_[0]


def job(app: str, target: Target, *, first: bool = True) -> Timed:
    problem = problem_of(app, "small")
    return Timed(problem.text(), schedule_text(problem.bind(), schedule_roots(problem.bind(), target)), first)


def test_figures_are_quartiles_of_samples_of_many_calls() -> None:
    clock = Steady(1.0, 2e-3, *(1e-3 * k for k in (5, 1, 3, 2, 4)))
    found = timed(lambda: None, clock, samples=5, sample_s=0.02, warm_s=0.0)
    assert (found.seconds, found.lower, found.upper, found.least) == pytest.approx((3e-3, 2e-3, 4e-3, 1e-3))
    assert (found.samples, found.calls) == (5, 10)
    assert clock.calls == [2, 3, 10, 10, 10, 10, 10]


def test_the_hosts_clock_waits_for_all_calls() -> None:
    order: list[str] = []
    assert HostClock(lambda: order.append("wait")).seconds(lambda: order.append("call"), 3) > 0
    assert order == ["wait", "call", "call", "call", "wait"]


def test_a_floor_covers_the_measured_rates() -> None:
    work = {"bytes": 8_000_000, "float32": 1_000_000, "float64": 5}
    assert floor_seconds(work, {"bytes_per_s": 4e12, "float32_per_s": 5e13}) == pytest.approx(
        {"bytes": 2e-6, "float32": 2e-8}
    )


def test_minimum_work_counts_required_points_once() -> None:
    y, x = Var("y"), Var("x")
    a = Input("a", float32, 2)
    b, c = Func("b"), Func("c")
    b[y, x] = a[y, x] * 2.0
    c[y, x] = b[y, x] + b[y, x] * b[y, x]
    work = work_of(bind(Pipeline([c]), {"a": (8, 16)}))
    assert (work.bytes, work.float32, work.float64) == (2 * 4 * 128, 3 * 128, 0)
    twice = a[y, x] * a[y, x]
    assert float_operations([twice + twice]) == (2, 0)
    wide = Input("wide", float64, 2)
    assert float_operations([wide[y, x] + 1.0, a[y, x] + 1.0]) == (1, 1)


def test_least_instructions_fuse_products_and_pack_narrow_numbers() -> None:
    y, x = Var("y"), Var("x")
    a, n = Input("a", float32, 2), Input("n", uint8, 2)
    v = a[y, x]
    assert least_instructions([v * 2.0 + 1.0]) == 1
    assert least_instructions([v * 2.0 + v * 3.0]) == 2
    assert least_instructions([(v * 2.0) * 3.0]) == 2
    assert least_instructions([n[y, x] + n[y, x + 1]]) == 0.5
    work = work_of(bind(Pipeline([_scaled(v)]), {"a": (8, 16)}))
    assert work.instructions == 128 + 2 * 4 * 128 / 16


def _scaled(value: Expr) -> Func:
    scaled = Func("scaled")
    scaled[Var("y"), Var("x")] = value * 2.0
    return scaled


@needs_nvrtc
def test_simulated_times(tmp_path: Path) -> None:
    chosen = options(tmp_path, apps=("blur",), strategies=("roots", "sioutas"))
    outcome, step_context = run("timing", chosen)
    assert outcome.finished, outcome.message
    assert set(step_context.parts) == {"ceilings", "floor/blur", "blur/roots/0", "blur/sioutas/0"}
    part = step_context.parts["blur/roots/0"]
    assert part["source"] == simulated_source(get_target("h200"))
    assert part["cold"]["seconds"] == pytest.approx(sum(part["kernel_s"]))
    assert part["cold"]["seconds"] > step_context.parts["floor/blur"]["seconds"]["bytes"]


@pytest.mark.skipif(not have_compiler("c"), reason="no C compiler")
def test_times_on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "timed", lambda call, clock: timed(call, clock, samples=3, sample_s=1e-4, warm_s=0.0))
    found = Stopwatch(get_target("cpu"), "cpu").time(job("blur", get_target("cpu")))
    assert found["source"].startswith("measured:")
    assert found["cold"]["seconds"] > 0
    assert found["call"]["seconds"] > 0
    later = Stopwatch(get_target("cpu"), "cpu").time(job("blur", get_target("cpu"), first=False))
    assert "call" not in later
    broken = Timed(problem_of("blur", "small").text(), "{}", is_first=False)
    assert Stopwatch(get_target("cpu"), "cpu").time(broken)["error"].startswith("ScheduleError")


class WithPointer(np.ndarray[Any, Any]):
    """An array with an address of its memory, like CuPy's."""

    data = property(lambda self: SimpleNamespace(ptr=self.ctypes.data))


class NotedCupy:
    """A fake CuPy that records calls with their streams."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.cuda = SimpleNamespace(
            Event=self.event, Stream=self.stream, get_elapsed_time=lambda a, b: 1000.0 * (b.at - a.at),
            get_current_stream=lambda: SimpleNamespace(ptr=0),
            runtime=SimpleNamespace(memcpyAsync=lambda *_: self.launch("memcpy", 2e-3), memcpyDeviceToDevice=3),
        )  # fmt: skip
        self.random = SimpleNamespace(
            randint=lambda lo, hi, n, dtype: np.random.default_rng(0).integers(lo, hi, n, dtype)
        )
        self.now = 0.0

    asarray = staticmethod(np.asarray)
    empty = staticmethod(lambda *arguments: np.empty(*arguments).view(WithPointer))

    def event(self) -> Any:
        event = SimpleNamespace(at=0.0, synchronize=lambda: None)
        event.record = lambda: setattr(event, "at", self.now)
        return event

    @contextmanager
    def stream(self, *, non_blocking: bool) -> Any:
        self.notes.append("stream")
        yield SimpleNamespace(synchronize=lambda: None)

    def launch(self, name: str, seconds: float = 1e-3) -> None:
        self.notes.append(name)
        self.now += seconds


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> NotedCupy:
    noted = NotedCupy()
    monkeypatch.setitem(sys.modules, "cupy", noted)  # type: ignore[arg-type]
    quick = {"samples": 3, "sample_s": 0.004, "warm_s": 0.0}
    for module in (timing, roofline_microbenchmarks):
        monkeypatch.setattr(module, "timed", lambda call, clock: timed(call, clock, **quick))
    return noted


def test_warm_times_on_a_gpu(cupy: NotedCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain launches, calls by a user, and a replayed graph; the setting is restored."""

    class Kernel:
        def __init__(self) -> None:
            self.how = "graphs" if os.environ["AUTOSCHED_CUDA_GRAPHS"] != "0" else "plain"

        def __call__(self, given: Any, out: Any) -> None:
            cupy.launch(self.how, 2e-3)

        def graph(self, given: Any, out: Any) -> Any:
            return SimpleNamespace(launch=lambda: cupy.launch("graph", 1e-3))

    monkeypatch.setattr(timing.ScheduledPipeline, "compile", lambda *_: Kernel())
    monkeypatch.delenv("AUTOSCHED_CUDA_GRAPHS", raising=False)
    found = Stopwatch(H200, "cuda")._warm(job("blur", H200))
    assert found["stream"]["seconds"] == pytest.approx(2e-3)
    assert found["graph"]["seconds"] == pytest.approx(1e-3)
    assert found["call"]["seconds"] > 0
    assert cupy.notes[0] == "stream"
    assert [n for n in dict.fromkeys(cupy.notes)] == ["stream", "plain", "graphs", "graph"]


@needs_nvrtc
def test_ceilings_of_a_gpu(cupy: NotedCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates are bytes and operations over time; the launches cover the counted work."""
    launched: dict[str, Any] = {}

    class Module:
        def __init__(self, code: bytes) -> None:
            assert code[:4] == b"\x7fELF"

        def launch(self, name: str, grid: Any, block: Any, arguments: Any) -> None:
            launched[name] = (grid, block, arguments)
            cupy.launch(name)

    monkeypatch.setattr(roofline_microbenchmarks, "CudaModule", Module)
    monkeypatch.setattr(roofline_microbenchmarks, "COPIED_BYTES", 1 << 24)
    found = gpu_ceilings(H200, EventClock())
    assert found["bytes_per_s"] == pytest.approx(2 * (1 << 24) / 1e-3)
    threads = launched["fma32"][0][0] * launched["fma32"][1][0]
    assert found["float32_per_s"] == pytest.approx(2 * threads * CHAINS * 512 * 32 / 1e-3)
    assert found["launch_s"] == pytest.approx(1e-3)
    grid, block, (a, b) = launched["copy"]
    assert grid[0] * block[0] * 4 * 16 == a.nbytes == b.nbytes
    assert a.any()


@needs_nvrtc
def test_machine_code_of_the_microbenchmarks_matches_their_counts() -> None:
    kernels = compile_cubin(SOURCE, "sm_90", name="ceilings").kernels
    assert set(kernels) == {"copy", "fma32", "fma64", "nothing"}
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in kernels.values())


def test_equal_schedules_are_timed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of a schedule share its times, those of an earlier call as well."""
    timed_names: list[str] = []

    def parts(_: object, method: str, todo: Any, **more: object) -> Any:
        for name, _job in todo:
            if method == "time":
                timed_names.append(name)
            yield name, {"source": method, "cold": {"seconds": 1.0}} if method != "prepare" else {}

    jobs = {
        "blur/one-shot/0": Timed("p", "a", True), "blur/top5/0": Timed("p", "a", False),
        "blur/learned/0": Timed("p", "b", True), "blur/top5/1": Timed("p", "b", False),
        "blur/top5/2": Timed("p", "c", False),
    }  # fmt: skip
    assert timing.names_by_schedule({k: jobs[k] for k in ("blur/top5/1", "blur/learned/0")}) == [
        ["blur/learned/0", "blur/top5/1"]
    ]
    monkeypatch.setattr(timing, "wanted_parts", lambda _: jobs.items())
    monkeypatch.setattr(timing, "do_parts", parts)
    chosen = options(tmp_path)
    before = context("timing", chosen)
    before.record("blur/learned/0", {"source": "earlier", "cold": {"seconds": 2.0}, "schedule": hash_of(b"b")})
    before.results.flush()
    outcome, step_context = run("timing", chosen)
    assert outcome.finished
    assert timed_names == ["blur/one-shot/0", "blur/top5/2"]
    assert step_context.parts["blur/top5/1"]["source"] == "earlier"
    assert step_context.parts["blur/top5/0"] == step_context.parts["blur/one-shot/0"]
    timed_names.clear()
    jobs["blur/learned/0"] = Timed("p", "d", True)  # by other weights
    assert run("timing", chosen)[0].finished
    assert timed_names == ["blur/learned/0"]
