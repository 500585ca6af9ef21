"""Kernels compiled as one program have the same code as those of a program each."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from autosched.codegen.cuda import cuda_prelude, print_cuda
from autosched.errors import CompileError
from autosched.lower.program import lower
from autosched.measure.problem import Problem
from autosched.runtime.compile import nvrtc
from autosched.runtime.compile.cache import DiskCache
from autosched.runtime.compile.nvrtc import NvrtcOptions, cached_cubin, compile_cubin, cubin_key, have_nvrtc
from autosched.runtime.compile.nvrtc_batch import KernelSource, compile_batch
from autosched.runtime.compile.ptxas_log import log_of_kernel
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.target import get_target

H200 = get_target("h200")
OPTIONS = NvrtcOptions(lineinfo=False)
LOG = """ptxas info    : Compiling entry function '{0}' for 'sm_90'
ptxas info    : Function properties for {0}
    {1} bytes stack frame, {1} bytes spill stores, 0 bytes spill loads
ptxas info    : Used {2} registers
"""

pytestmark = [
    pytest.mark.usefixtures("cache_dir"),
    pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed"),
]


def copies(name: str, factor: int = 1) -> KernelSource:
    text = f"KERNEL({name}, 32)(GLOBAL_OUT(float, a, 32)) {{ STORE(0, a, threadIdx.x, {factor}.0f * LOAD(0, a, 3)); }}"
    return KernelSource(f"{cuda_prelude()}{text}\n", name)


def machine_code(cubin: bytes, name: str) -> bytes:
    """Return the section of an ELF file with a kernel's instructions."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + k * size) for k in range(count)]
    names = cubin[sections[names_at][4] :]
    (found,) = (s for s in sections if names[s[0] : names.index(b"\0", s[0])].decode() == f".text.{name}")
    return cubin[found[4] : found[4] + found[5]]


def sources_of(problem: Problem, seed: int) -> list[KernelSource]:
    bound = problem.bind()
    schedule = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True, lanes="all")
    return [KernelSource(k.source, k.name) for k in map(print_cuda, lower(bound, schedule).kernels)]


PROBLEMS = [
    *(Problem.app(name, small=True) for name in ("hist", "iir_blur", "layer_norm")),
    Problem.random(3),
    *(
        pytest.param(p, marks=pytest.mark.fuzz)  # many kernels
        for p in (Problem.app("local_laplacian", small=True), Problem.random(12))
    ),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.title)
def test_machine_code_and_resources_are_those_of_each_alone(
    problem: Problem, programs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = sources_of(problem, 1)
    together = compile_batch(sources, "sm_90", OPTIONS)
    assert programs[0] == ("together" if len(sources) > 1 else sources[0].name)
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "other"))
    for source, found in zip(sources, together, strict=True):
        alone = compile_cubin(source.text, "sm_90", OPTIONS, name=source.name)
        assert found.kernels == alone.kernels and found.has_relaxed_bounds == alone.has_relaxed_bounds
        assert machine_code(found.code, source.name) == machine_code(alone.code, source.name)


def test_each_is_in_the_cache_and_their_code_once(programs: list[str]) -> None:
    sources = [copies("one", 1), copies("two", 2), copies("three", 3)]
    found = compile_batch(sources, "sm_90", OPTIONS)
    assert programs == ["together"]
    assert len({f.code for f in found}) == 1 and [list(f.kernels) for f in found] == [["one"], ["two"], ["three"]]
    assert compile_batch(sources[::-1], "sm_90", OPTIONS) == found[::-1]
    assert compile_cubin(sources[1].text, "sm_90", OPTIONS, name="two") == found[1]
    assert programs == ["together"]
    sizes = [entry.size_bytes for entry in DiskCache("cubin").entries()]
    assert len(sizes) == 4 and sum(sizes) < 1.2 * len(found[0].code)


def test_only_what_is_missing_is_compiled(programs: list[str]) -> None:
    first = compile_batch([copies("one")], "sm_90", OPTIONS)
    second = compile_batch([copies("two"), copies("one"), copies("three"), copies("two")], "sm_90", OPTIONS)
    assert programs == ["one", "together"]
    assert second[1] == first[0] and second[0] == second[3]
    assert "one" not in [*second[0].kernels, *second[2].kernels]


def test_code_that_is_lost_is_compiled_again(programs: list[str]) -> None:
    sources = [copies("one"), copies("two")]
    compile_batch(sources, "sm_90", OPTIONS)
    DiskCache("cubin").entries()[0].path.unlink()  # the largest: the code of both
    keys = [cubin_key(s.text, "sm_90", OPTIONS, s.name) for s in sources]
    assert [cached_cubin(key, "sm_90") for key in keys] == [None, None]
    compile_batch(sources, "sm_90", OPTIONS)
    assert programs == ["together", "together"]


def test_a_kernel_whose_code_was_lost_is_found_once_it_was_compiled_with_others(programs: list[str]) -> None:
    kernels = [copies(name) for name in ("one", "two", "three", "four")]
    for other in kernels[1:]:
        for entry in DiskCache("cubin").entries()[:1]:
            entry.path.unlink()
        compile_batch([kernels[0], other], "sm_90", OPTIONS)
    assert programs == ["together"] * 3
    assert compile_batch(kernels[:1], "sm_90", OPTIONS) and programs == ["together"] * 3


@pytest.mark.parametrize("with_room_bytes", [0, 48])
def test_one_that_spills_is_compiled_once_more_by_itself(with_room_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = []

    def compiler(source: str, arch: str, options: NvrtcOptions, name: str) -> tuple[bytes, str]:
        programs.append(name)
        if name == "together":
            return b"both", LOG.format("crowded", 40, 32) + LOG.format("other", 0, 18)
        assert "KERNEL(crowded, 32, 1)(" in source
        return b"room", LOG.format("crowded", with_room_bytes, 64)

    monkeypatch.setattr(nvrtc, "_compile", compiler)
    for _ in range(2):  # the second time from the cache
        spills, other = compile_batch([copies("crowded"), copies("other")], "sm_90", OPTIONS)
        assert programs == ["together", "crowded"]
        assert (other.code, other.spill_bytes, other.kernels["other"].registers) == (b"both", 0, 18)
        assert spills.has_relaxed_bounds == (with_room_bytes < 40)
        assert spills.code == (b"room" if spills.has_relaxed_bounds else b"both")
        assert spills.spill_bytes == min(with_room_bytes, 40)


def test_one_that_is_refused_is_named_and_the_others_are_compiled() -> None:
    wrong = KernelSource(copies("wrong").text.replace("LOAD(0, a, 3)", "nothing"), "wrong")
    with pytest.raises(CompileError, match=r"wrong\.cu"):
        compile_batch([copies("right"), wrong], "sm_90", OPTIONS)
    right = copies("right")
    assert cached_cubin(cubin_key(right.text, "sm_90", OPTIONS, "right"), "sm_90") is not None


def test_with_line_information_each_is_a_file_of_its_own(programs: list[str]) -> None:
    compile_batch([copies("one"), copies("two")], "sm_90", NvrtcOptions())
    assert programs == ["one", "two"]


def test_lines_of_a_log_about_a_kernel() -> None:
    log = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'a' for 'sm_90'\nptxas info    : Used 8 registers\n"
        "ptxas info    : Function properties for helper\n"
        "ptxas info    : Compiling entry function 'ab' for 'sm_90'\nptxas info    : Used 9 registers"
    )
    assert log_of_kernel(log, "a").count("\n") == 2 and "helper" in log_of_kernel(log, "a")
    assert log_of_kernel(log, "ab").endswith("Used 9 registers") and "helper" not in log_of_kernel(log, "ab")
    assert log_of_kernel(log, "b") == ""
