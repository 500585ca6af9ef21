"""NVRTC compiles on every machine, without a GPU; its log reaches the caller."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import CompileError
from autosched.runtime.compile import nvrtc
from autosched.runtime.compile.nvrtc import Cubin, NvrtcOptions, compile_cubin, have_nvrtc, supported_archs
from autosched.runtime.compile.nvrtc_pool import compile_many
from autosched.runtime.compile.ptxas_log import KernelResources, parse_ptxas_log

pytestmark = [
    pytest.mark.usefixtures("cache_dir"),
    pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed"),
]

SCALE = """
extern "C" __global__ void __launch_bounds__(128) scale(const float* __restrict__ a, float* __restrict__ b)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    b[i] = a[i] * 3.0f + 1.0f;
}
"""

SHARED = """
extern "C" __global__ void __launch_bounds__(64) turn(const float* __restrict__ a, float* __restrict__ b)
{
    __shared__ float tile[64];
    tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    b[threadIdx.x] = tile[63 - threadIdx.x];
}
"""

STACK = """
extern "C" __global__ void __launch_bounds__(64) pick(const float* __restrict__ a, float* __restrict__ b, int n)
{
    float r[100];
    for (int i = 0; i < 100; i++) r[(int)a[i * n]] = a[i];
    b[threadIdx.x] = r[n];
}
"""

SPILLS = """
extern "C" __global__ void __launch_bounds__(1024) crowd(const float* __restrict__ a, float* __restrict__ b)
{
    float r[80];
    _Pragma("unroll") for (int i = 0; i < 80; i++) r[i] = a[i * 1024 + threadIdx.x];
    for (int k = 0; k < 9; k++) {
        const float first = r[0];
        _Pragma("unroll") for (int i = 0; i < 79; i++) r[i] = r[i] * r[(i * 7) % 80] + r[i + 1];
        r[79] = first;
    }
    _Pragma("unroll") for (int i = 0; i < 80; i++) b[i * 1024 + threadIdx.x] = r[i];
}
"""


def test_a_cubin_and_its_resources() -> None:
    cubin = compile_cubin(SCALE + SHARED + STACK, "sm_90")
    assert cubin.code.startswith(b"\x7fELF")
    assert cubin.arch == "sm_90"
    assert set(cubin.kernels) == {"scale", "turn", "pick"}
    assert all(1 <= kernel.registers <= 255 for kernel in cubin.kernels.values())
    assert cubin.kernels["turn"].static_shared_bytes == 64 * 4
    assert cubin.kernels["scale"].static_shared_bytes == 0
    assert cubin.kernels["pick"].stack_bytes == 400
    assert not any(kernel.spills for kernel in cubin.kernels.values())


def test_spills_are_seen() -> None:
    kernel = compile_cubin(SPILLS, "sm_90").kernels["crowd"]
    assert kernel.registers <= 64
    assert kernel.spills
    assert kernel.spill_store_bytes > 0
    assert kernel.spill_load_bytes > 0
    assert not compile_cubin(SPILLS.replace("1024)", "128)"), "sm_90").kernels["crowd"].spills


def test_options_reach_the_compiler() -> None:
    divide = 'extern "C" __global__ void k(float* a, float d) { a[threadIdx.x] = a[threadIdx.x] / d; }'
    exact = compile_cubin(divide, "sm_90")
    fast = compile_cubin(divide, "sm_90", NvrtcOptions(fast_math=True))
    assert len(fast.code) < len(exact.code)
    contract = 'extern "C" __global__ void k(float* a, float d) { a[threadIdx.x] = a[threadIdx.x] * d + d; }'
    assert compile_cubin(contract, "sm_90").code != compile_cubin(contract, "sm_90", NvrtcOptions(fmad=False)).code
    without_lines = compile_cubin(SCALE, "sm_90", NvrtcOptions(lineinfo=False))
    assert b"kernel.cu" in compile_cubin(SCALE, "sm_90").code
    assert b"kernel.cu" not in without_lines.code


def test_debug_code_is_never_asked_for() -> None:
    every_flag = NvrtcOptions(fast_math=True).as_flags()
    assert "-lineinfo" in every_flag
    assert not {"-G", "--device-debug"} & set(every_flag)
    assert b".debug_info" not in compile_cubin(SCALE, "sm_90").code


def test_second_compilation_comes_from_the_cache(programs: list[str]) -> None:
    first = compile_cubin(SCALE, "sm_90", name="first")
    assert compile_cubin(SCALE, "sm_90", name="first") == first
    assert programs == ["first"]
    for different in (
        (SCALE + "\n", "sm_90", NvrtcOptions()),
        (SCALE, "sm_80", NvrtcOptions()),
        (SCALE, "sm_90", NvrtcOptions(fast_math=True)),
    ):
        compile_cubin(*different, name="other")
    assert programs == ["first", "other", "other", "other"]


@pytest.mark.parametrize("kind", ["cubin", "nvrtc-log"])
def test_a_damaged_cache_entry_is_compiled_again(kind: str, cache_dir: Path, programs: list[str]) -> None:
    first = compile_cubin(SCALE, "sm_90")
    for path in (cache_dir / kind).rglob("*.*"):
        path.write_bytes(path.read_bytes()[:-1])
    programs.clear()
    assert compile_cubin(SCALE, "sm_90").kernels == first.kernels
    assert programs == ["kernel"]


def test_another_nvrtc_compiles_again(programs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    compile_cubin(SCALE, "sm_90")
    programs.clear()
    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: "99.9")
    compile_cubin(SCALE, "sm_90")
    assert programs == ["kernel"]


def test_a_refused_source_shows_the_log_and_the_line() -> None:
    with pytest.raises(CompileError, match=r"refused the generated source blur\.cu") as caught:
        compile_cubin(SCALE.replace("a[i] *", "missing_name *"), "sm_90", name="blur")
    text = str(caught.value)
    assert "> 5 |     b[i] = missing_name * 3.0f + 1.0f;" in text
    assert "  4 |     const int i" in text
    assert 'blur.cu(5): error: identifier "missing_name" is undefined' in caught.value.log
    assert "missing_name" in caught.value.source
    assert "\0" not in text


def test_what_ptxas_refuses_is_a_compile_error() -> None:
    too_much = 'extern "C" __global__ void k(float* a) { __shared__ float s[100000]; s[threadIdx.x] = *a; *a = s[1]; }'
    with pytest.raises(CompileError, match="too much shared data"):
        compile_cubin(too_much, "sm_90")


def test_an_old_architecture_names_the_way_out() -> None:
    assert 90 in supported_archs()
    if 60 not in supported_archs():
        with pytest.raises(CompileError, match=r"does not compile for sm_60, only for .*sm_90.*cuda12"):
            compile_cubin(SCALE, "sm_60")


@pytest.mark.parametrize("arch", ["90", "sm_", "compute_90", "sm_90 -G", ""])
def test_an_architecture_is_a_plain_word(arch: str) -> None:
    with pytest.raises(CompileError, match="write it as sm_90"):
        compile_cubin(SCALE, arch)


def test_a_name_is_an_identifier() -> None:
    with pytest.raises(ValueError, match="identifier"):
        compile_cubin(SCALE, "sm_90", name="../blur")


@pytest.mark.parametrize("module", ["cuda.bindings", "cuda.core"])
def test_missing_packages_name_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc.nvrtc_version.cache_clear()
    for loaded in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    assert not have_nvrtc()
    with pytest.raises(CompileError, match=r"autosched\[cuda13\]"):
        compile_cubin(SCALE, "sm_90")


def test_a_library_that_does_not_load_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc as bindings
    from cuda.pathfinder import DynamicLibNotFoundError

    def no_library() -> None:
        raise DynamicLibNotFoundError("libnvrtc.so.13")

    nvrtc.nvrtc_version.cache_clear()
    monkeypatch.setattr(bindings, "nvrtcVersion", no_library)
    with pytest.raises(CompileError, match=r"autosched\[cuda13\]") as caught:
        compile_cubin(SCALE, "sm_90")
    assert "libnvrtc.so.13" in caught.value.log


def test_compile_many_keeps_order_and_survives_a_refusal(programs: list[str]) -> None:
    sources = [SCALE.replace("3.0f", f"{number}.0f") for number in range(6)]
    sources[2] = SCALE.replace("a[i] *", "missing_name *")
    sources[4] = sources[0]
    results = compile_many(sources, "sm_90", names=[f"k{n}" if n != 4 else "k0" for n in range(6)], processes=2)
    assert [type(result) for result in results] == [Cubin, Cubin, CompileError, Cubin, Cubin, Cubin]
    assert results[0] == results[4] != results[1]
    assert "> 5 |     b[i] = missing_name" in str(results[2])
    assert "k2.cu(5): error" in str(results[2])
    programs.clear()
    for number in (0, 1, 3, 5):
        assert compile_cubin(sources[number], "sm_90", name=f"k{number}") == results[number]
    assert programs == []


def test_a_compiler_that_hangs_is_stopped_and_the_rest_goes_on() -> None:
    """Many large kernels keep the compiler busy for far longer than the limit, on a fast machine, too."""
    large = SPILLS.replace("80", "256").replace("79", "255")
    slow = "\n".join(large.replace("crowd", f"crowd{k}") for k in range(100))
    results = compile_many([slow, SCALE], "sm_90", processes=1, timeout_s=1.0)
    assert isinstance(results[0], CompileError)
    assert "did not compile kernel.cu for sm_90 in 1 s" in str(results[0])
    assert isinstance(results[1], Cubin)


def test_a_compiler_that_crashes_is_an_error_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho last words >&2\nexit 7\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    (result,) = compile_many([SCALE], "sm_90", timeout_s=10)
    assert isinstance(result, CompileError)
    assert "exit code 7" in str(result)
    assert "last words" in str(result)


def test_the_worker_ignores_modules_of_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.setattr(sys, "path", [os.path.abspath(entry) for entry in sys.path])
    monkeypatch.chdir(tmp_path)
    (result,) = compile_many([SCALE], "sm_90", timeout_s=60)
    assert isinstance(result, Cubin)


def test_compile_many_of_nothing() -> None:
    assert compile_many([], "sm_90") == []
    assert compile_many([], "sm_90", timeout_s=1) == []


def test_results_travel_between_processes() -> None:
    cubin = compile_cubin(SCALE, "sm_90")
    assert pickle.loads(pickle.dumps(cubin)) == cubin


OLDER_LOG = """\
ptxas info    : 272 bytes gmem, 256 bytes cmem[3]
ptxas info    : Compiling entry function 'first' for 'sm_75'
ptxas info    : Function properties for first
ptxas         .     72 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 26 registers, used 1 barriers, 96 bytes cumulative stack size, 512 bytes smem, 368 bytes cmem[0], 40 bytes cmem[2]
ptxas info    : Function properties for __internal_trig_reduction_slowpathd
ptxas         .     40 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function 'second' for 'sm_75'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 352 bytes cmem[0]
"""  # noqa: E501 - a log's lines are as long as they are


def test_logs_of_other_versions_are_understood() -> None:
    assert parse_ptxas_log(OLDER_LOG) == {
        "first": KernelResources(26, 96, 8, 16, 512, 408),
        "second": KernelResources(8, constant_bytes=352),
    }


@pytest.mark.parametrize(("version", "told"), [("12.8", None), ("12.9", True), ("13.0", True)])
def test_what_the_compiler_kept_itself_is_not_taken(
    version: str, told: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a driver, NVRTC's own cache returns earlier code without running ptxas, so without its report."""
    import cuda.core

    given: list[dict[str, Any]] = []
    options = cuda.core.ProgramOptions
    monkeypatch.setattr(cuda.core, "ProgramOptions", lambda **named: given.append(named) or options(**named))  # type: ignore[func-returns-value]
    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: version)
    assert nvrtc.compile_cubin(SCALE, "sm_90").kernels["scale"].registers > 0
    assert [named["no_cache"] for named in given] == [told]
