"""Versions of a region: comparison with PyTorch's kernels, errors, threads, and the cache on disk."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

import autosched.torch
from autosched.errors import CompileError
from autosched.torch import comparison, region_cache, region_code
from autosched.torch import region as region_module
from autosched.torch.host_code import SERIAL_ELEMENTS, HostCode
from autosched.torch.region import Region
from autosched.torch.tensors import UnsupportedError
from tests.torch_backend.compiled import FAST, compiled

Tensor = torch.Tensor
MEASURED = {"strategy": "roots", "fallback": "measure"}


def regions_of(function: Callable[..., Any], *args: Any, options: dict[str, Any]) -> tuple[Any, list[Region]]:
    """Return a compiled function after a call, and its regions."""
    torch._dynamo.reset()
    f = torch.compile(function, backend="autosched", options=options)
    with autosched.torch.explanation.recording() as record:
        f(*args)
    return f, [region for _, regions in record for region in regions]


@pytest.mark.parametrize(("seconds", "by_pytorch"), [((2e-3, 1e-3), True), ((1e-3, 2e-3), False)])
def test_the_faster_side_is_kept(
    seconds: tuple[float, float], by_pytorch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(region_module, "compared_seconds", lambda *_: (calls.append(1), seconds)[1])
    f, (region,) = regions_of(lambda x: x * 2, torch.rand(9), options=MEASURED)
    f(torch.rand(9))
    assert [isinstance(v, HostCode) for v in region.versions.values()] == [not by_pytorch]
    assert list(region.notes.values()) == (["PyTorch's kernels take 1000 us, ours 2000 us"] if by_pytorch else [])
    # the choice is in the cache
    _, (again,) = regions_of(lambda x: x * 2, torch.rand(9), options=MEASURED)
    assert [isinstance(v, HostCode) for v in again.versions.values()] == [not by_pytorch]
    assert len(calls) == 1


def test_a_comparison_takes_turns_and_ends_in_time() -> None:
    order: list[str] = []

    def side(name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            order.append(name)
            time.sleep(seconds)

        return run

    start = time.perf_counter()
    ours, theirs = comparison.compared_seconds(side("ours", 0.03), side("theirs", 0.001), (), seconds=0.2)
    assert time.perf_counter() - start < 0.6
    assert ours > theirs
    assert order[:4] == ["ours", "theirs"] * 2
    order.clear()
    comparison.compared_seconds(side("ours", 0.0), side("theirs", 0.0), ())
    assert len(order) == 2 * (comparison.MOST_TURNS + 1)


def test_an_index_error_in_the_comparison_reaches_the_caller() -> None:
    torch._dynamo.reset()
    f = torch.compile(lambda x, i: x[i] * 2, backend="autosched", options=MEASURED)
    x = torch.rand(5)
    with autosched.torch.explanation.recording() as record:
        for _ in range(2):
            with pytest.raises(IndexError, match="out of range"):
                f(x, torch.tensor([0, 5]))
    (region,) = record[0][1]
    assert not region.versions
    torch.testing.assert_close(f(x, torch.tensor([0, -1])), x[[0, -1]] * 2)
    assert len(region.versions) == 1
    assert region.compilations == 1


def unsupported(*_: Any) -> None:
    raise UnsupportedError("a form of the test")


def test_a_region_that_cannot_be_compiled_is_left_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_code, "translate", unsupported)
    torch._dynamo.reset()
    f = torch.compile(lambda x: x * 2, backend="autosched", options=MEASURED, dynamic=True)
    with pytest.warns(RuntimeWarning, match=r"leaves region0 to PyTorch: UnsupportedError: a form") as caught:
        for n in (3, 4, 5):
            torch.testing.assert_close(f(torch.ones(n)), torch.full((n,), 2.0))
    assert len([w for w in caught if "autosched" in str(w.message)]) == 1
    with pytest.raises(UnsupportedError, match="a form of the test"):
        compiled(lambda x: x * 2)(torch.rand(3))


def test_a_function_of_several_regions_and_sizes_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_code, "translate", unsupported)
    for sizes, differentiated in (((3, 4, 5), False), ((3,), True)):
        torch._dynamo.reset()
        f = torch.compile(lambda x: torch.sort(x * 2)[0].sin() * 3, backend="autosched", options=MEASURED)
        with pytest.warns(RuntimeWarning, match="a form of the test") as caught:
            for n in sizes:
                result = f(torch.ones(n, requires_grad=differentiated))
                if differentiated:
                    result.sum().backward()
        assert len([w for w in caught if "autosched" in str(w.message)]) == 1


INVALID: dict[str, Any] = {
    "max": (lambda x: (x * 2).max(), (0, 3)),
    "max along a dimension": (lambda x: (x * 2).max(0), (0, 3)),
    "gather": (lambda x: torch.gather(x * 2, 0, torch.zeros(1, 3, dtype=torch.int64)), (0, 3)),
    "index": (lambda x: (x * 2)[torch.tensor([0])], (0, 3)),
    "adaptive pooling": (lambda x: torch.nn.functional.adaptive_avg_pool2d(x * 2, 2), (1, 2, 0, 3)),
    "division": (lambda x: x.to(torch.int32) * 2 // 0, (3,)),
    "power": (lambda x: (x.to(torch.int32) * 2) ** -1, (3,)),
}


@pytest.mark.parametrize("fallback", ["error", "predict"])
@pytest.mark.parametrize("name", INVALID)
def test_operands_that_pytorch_refuses_raise_its_error(name: str, fallback: str) -> None:
    function, shape = INVALID[name]
    x = torch.ones(shape)
    with pytest.raises((IndexError, RuntimeError)) as expected:
        function(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(expected.type, match=re.escape(str(expected.value).splitlines()[0])):
            compiled(function, fallback=fallback)(x)


def test_an_error_of_our_own_leaves_the_region_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_code, "translate", lambda *_: {}["missing"])
    torch._dynamo.reset()
    f = torch.compile(lambda x: x * 2, backend="autosched", options=MEASURED)
    with pytest.warns(RuntimeWarning, match="KeyError"):
        torch.testing.assert_close(f(torch.ones(3)), torch.full((3,), 2.0))


def test_without_a_compiler_pytorch_computes_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for name in ("CC", "AUTOSCHED_CC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(region_module, "_warned_of", set())
    torch._dynamo.reset()
    f = torch.compile(lambda x: torch.sort(x * 2)[0] + 1, backend="autosched", options=MEASURED)
    with pytest.warns(RuntimeWarning, match="leaves all regions to PyTorch: CompileError: no C compiler") as caught:
        torch.testing.assert_close(f(torch.ones(3)), torch.full((3,), 3.0))
    assert len([w for w in caught if "autosched" in str(w.message)]) == 1
    with pytest.raises(CompileError, match="no C compiler was found"):
        compiled(lambda x: x * 2)(torch.rand(3))


def test_compilation_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_region = region_code.compile_region
    threads: list[str] = []
    gate = region_module.threading.Event()

    def slow(graph: GraphModule, arguments: Any, options: Any) -> Any:
        threads.append(region_module.threading.current_thread().name)
        assert all(isinstance(a, torch._subclasses.FakeTensor) for a in arguments)
        assert gate.wait(60)
        return compile_region(graph, arguments, options)

    monkeypatch.setattr(region_code, "compile_region", slow)
    f, (region,) = regions_of(lambda x: x * 2 + 1, torch.rand(4), options={**FAST, "compile_in_background": True})
    x = torch.rand(4)
    torch.testing.assert_close(f(x), x * 2 + 1)
    assert not region.versions
    gate.set()
    end = time.monotonic() + 60
    while not region.versions and time.monotonic() < end:
        time.sleep(0.05)
        torch.testing.assert_close(f(x), x * 2 + 1)
    assert isinstance(next(iter(region.versions.values())), HostCode)
    assert threads == ["autosched_0"]
    assert region.compilations == 1


def test_an_error_in_the_background_is_raised_by_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_code, "translate", unsupported)
    torch._dynamo.reset()
    f = torch.compile(lambda x: x * 2, backend="autosched", options={**FAST, "compile_in_background": True})

    def calls() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            f(torch.rand(4))
            time.sleep(0.05)

    with pytest.raises(UnsupportedError, match="a form of the test"):
        calls()


def test_a_cached_region_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Tensor, i: Tensor) -> Any:
        return x[:, i] * torch.linspace(0, 1, 3), x.amax(1), i.flip(0)

    x, i = torch.rand(4, 5), torch.tensor([0, -1, 2])
    _, first = regions_of(function, x, i, options=FAST)
    monkeypatch.setattr(region_code, "translate", unsupported)
    f, second = regions_of(function, x, i, options=FAST)
    torch.testing.assert_close(f(x, i), function(x, i))
    with pytest.raises(IndexError):
        f(x, torch.tensor([0, 7, 1]))
    plans = [[v.plan for v in r.versions.values() if isinstance(v, HostCode)] for r in (*first, *second)]
    assert len(plans) == 2 * len(first)
    for before, after in zip(plans[: len(first)], plans[len(first) :], strict=True):
        assert [p.to_json() for p in before] == [p.to_json() for p in after]
        assert [p.library for p in before] == [p.library for p in after]


def test_the_key_has_everything_that_code_depends_on() -> None:
    _, (region,) = regions_of(lambda x: x * 2, torch.rand(4, 6), options=FAST)
    _, (other,) = regions_of(lambda x: x * 3, torch.rand(4, 6), options=FAST)
    x = torch.rand(4, 6)
    options = region.options
    keys = [
        region_cache.region_key(region.graph, (a,), options)
        for a in (x, torch.rand(6, 4), torch.rand(6, 4).t(), x.double())
    ]
    keys.append(region_cache.region_key(other.graph, (x,), options))
    keys += [
        region_cache.region_key(region.graph, (x,), region_module.Options(**{**FAST, **changed}))
        for changed in ({"effort": "thorough"}, {"strategy": "beam"}, {"seconds": 9.0}, {"mode": "top5"})
    ]
    assert len(set(keys)) == len(keys)
    assert region_cache.region_key(region.graph, (x,), region_module.Options(strategy="roots")) == keys[0]
    assert region_cache.region_key(region.graph, (x.to("meta"),), options) is None


def test_damaged_entries_are_compiled_again() -> None:
    cache = region_cache._REGIONS
    regions_of(lambda x: x * 2, torch.rand(7), options=FAST)
    (entry,) = cache.entries()
    for content in (b"{}", b"[1", entry.path.read_bytes().replace(b'"library": "', b'"library": "0')):
        cache.discard(entry.key)
        cache.put(entry.key, content)
        assert region_cache.find_region(entry.key) is None
        f, _ = regions_of(lambda x: x * 2, torch.rand(7), options=FAST)
        torch.testing.assert_close(f(torch.ones(7)), torch.full((7,), 2.0))
        assert region_cache.find_region(entry.key) is not None


SECOND_PROCESS = """
import sys
import torch
f = torch.compile(lambda x: torch.tanh(x) * 2, backend="autosched", options={"strategy": "roots"})
f(torch.rand(50))
print(sum(m.startswith(("autosched.search", "autosched.codegen.c", "autosched.lower.")) for m in sys.modules))
print("kornia" in sys.modules)
"""


def test_a_second_process_imports_neither_search_nor_code_generation() -> None:
    outputs = [
        subprocess.run([sys.executable, "-c", SECOND_PROCESS], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert int(outputs[0].split()[0]) > 0 or outputs[0] == outputs[1]  # an earlier run may have filled the cache
    assert outputs[1].split() == ["0", "False"]


def test_small_calls_run_in_the_callers_thread() -> None:
    small = torch.rand(SERIAL_ELEMENTS // 2)
    for x, is_serial in ((small, True), (torch.rand(SERIAL_ELEMENTS), False)):
        _, (region,) = regions_of(lambda x: x + 1, x, options=FAST)
        (code,) = region.versions.values()
        assert isinstance(code, HostCode)
        assert (code._threads is not None) == is_serial
    _, (region,) = regions_of(lambda x: x + 1, small, options=FAST)
    (code,) = region.versions.values()
    assert isinstance(code, HostCode)
    assert code._threads is not None
    seen: list[int] = []
    threads, _ = code._threads
    entry = code._entry
    code._entry = lambda *a: (seen.append(threads()), entry(*a))
    before = threads()
    region(small)
    assert seen == [1]
    assert threads() == before


def test_a_call_costs_little_beside_the_kernel() -> None:
    x = torch.rand(1000)
    _, (region,) = regions_of(lambda x: x + 1, x, options=FAST)
    (code,) = region.versions.values()
    assert isinstance(code, HostCode)
    result = torch.empty_like(x)
    pointers = code._pointers(*({"argument": x, "result": result}[kind].data_ptr() for kind, _ in code.plan.addresses))

    def least(call: Callable[[], Any]) -> float:
        times = []
        for _ in range(300):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return min(times)

    assert least(lambda: region(x)) - least(lambda: code._entry(pointers, None)) < 25e-6


def test_warnings_are_no_errors_of_a_call() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(compiled(lambda x: x * 2)(torch.ones(3)), torch.full((3,), 2.0))


def test_the_last_used_sizes_are_kept() -> None:
    torch._dynamo.reset()
    f = torch.compile(lambda x: x * 3, backend="autosched", options={**FAST, "versions": 2}, dynamic=True)
    with autosched.torch.explanation.recording() as record:
        for n in (3, 4, 3, 5):
            f(torch.ones(n))
    (region,) = record[0][1]
    assert [key[-1][0] for key in region.versions] == [(3,), (5,)]


def test_numbers_that_never_come_again_are_not_compiled() -> None:
    torch._dynamo.reset()
    f = torch.compile(
        lambda x, n: x * n, backend="autosched", options={"strategy": "roots", "fallback": "predict"}, dynamic=True
    )
    x = torch.ones(3)
    with autosched.torch.explanation.recording() as record:
        for n in range(2, 22):
            torch.testing.assert_close(f(x, n), x * n)
        (region,) = [r for _, regions in record for r in regions]
        assert region.compilations == region_module.EAGER_VERSIONS
        torch.testing.assert_close(f(x, 21), x * 21)
    assert region.compilations == region_module.EAGER_VERSIONS + 1


def test_code_of_other_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter runs regions as a GPU does, by arrays in place of addresses."""
    schedule = region_code.scheduled_pipeline

    class Interpreted:
        def __init__(self, *args: Any) -> None:
            self.scheduled = schedule(*args)

        def compile(self) -> Any:
            return self.scheduled.compile("interpreter")

    monkeypatch.setattr(region_code, "scheduled_pipeline", Interpreted)

    def function(x: Tensor, i: Tensor) -> Any:
        return x[:, i] * torch.linspace(0, 1, 3), x.amax(1)

    x, i = torch.complex(torch.rand(4, 5), torch.rand(4, 5)).conj().imag, torch.tensor([0, -1, 2])
    f, (region,) = regions_of(function, x, i, options=FAST)
    assert isinstance(next(iter(region.versions.values())), region_code.RegionCode)
    torch.testing.assert_close(f(x, i), function(x, i))
    with pytest.raises(IndexError, match="out of range"):
        f(x, torch.tensor([0, 7, 1]))
