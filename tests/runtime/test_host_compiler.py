"""The system's compiler: detection, cached properties, errors."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import CompileError
from autosched.host import read_host
from autosched.runtime.compile import host_compiler
from autosched.runtime.compile.host_compile_flags import kernel_options
from autosched.runtime.compile.host_compiler import (
    compile_shared_library,
    find_compiler,
    gnu_version,
    have_compiler,
    kernel_flags,
)

pytestmark = pytest.mark.usefixtures("cache_dir")

ADD = "int add(int a, int b) { return a + b; }\n"


def _fake_compiler(path: Path, body: str, language: host_compiler.Language = "c") -> Path:
    """Write a script that wraps the real compiler and appends its arguments to a log beside it."""
    real = find_compiler(language).command[0]
    path.write_text(f'#!/bin/sh\necho "$@" >> {path}.log\n{body}\nexec {real} "$@"\n')
    path.chmod(0o755)
    return path


def _compilations(wrapper: Path) -> int:
    return sum("-o" in line.split() for line in Path(f"{wrapper}.log").read_text().splitlines())


def test_compiles_c_that_runs() -> None:
    library = ctypes.CDLL(str(compile_shared_library(ADD)))
    assert library.add(40, 2) == 42


def test_compiles_cpp_with_own_flags() -> None:
    source = 'template <class T> T twice(T x) { return x + x; }\nextern "C" int f(int x) { return twice(x); }\n'
    library = ctypes.CDLL(str(compile_shared_library(source, "c++", ["-std=c++17", "-O1"])))
    assert library.f(21) == 42


def test_math_functions_are_linked() -> None:
    source = "float sinf(float); float f(float x) { return sinf(x); }"
    f = ctypes.CDLL(str(compile_shared_library(source))).f
    f.argtypes, f.restype = [ctypes.c_float], ctypes.c_float
    assert f(0.5) == pytest.approx(np.sin(0.5))


def test_default_flags_do_not_contract_products() -> None:
    """A fused multiply-add would return the product's rounding error instead of 0."""
    source = "float f(float a, float b, float c) { return a * b + c; }"
    f = ctypes.CDLL(str(compile_shared_library(source))).f
    f.argtypes, f.restype = [ctypes.c_float] * 3, ctypes.c_float
    a = np.float32(1) + np.float32(2**-12)
    product = a * a
    assert float(product) != float(a) * float(a)
    assert f(a, a, -product) == 0.0


def test_default_flags_use_openmp_threads() -> None:
    if "-fopenmp" not in kernel_flags():
        pytest.skip("this compiler has no OpenMP")
    source = """
        int f(void) {
            int threads = 0;
        #pragma omp parallel num_threads(3)
        #pragma omp atomic
            threads++;
            return threads;
        }"""
    assert ctypes.CDLL(str(compile_shared_library(source))).f() == 3


def test_conditions_that_lanes_share_do_not_keep_large_loops_from_vectors(tmp_path: Path) -> None:
    compiler = find_compiler("c")
    if "free software" not in compiler.version.lower() or "-fopenmp" not in kernel_flags():
        pytest.skip("only gcc tells which loops it vectorises in this way")
    terms = " + ".join(f"{k}.5f * a[y + x + {k * k}]" for k in range(30))  # a stencil at the border of its grid
    (tmp_path / "loop.c").write_text(
        "void f(float* restrict o, const float* restrict a, int z, int y, int n) {\n#pragma omp simd\n"
        f"for (int x = 0; x < n; x++)\no[x] = ((z >= 4) && (y >= 4) && (z < 60) && (y < 60)) ? ({terms}) : 0.0f;\n}}\n"
    )
    command = [*compiler.command, *kernel_flags(), "-fopt-info-vec-optimized", "-c", "loop.c", "-o", "loop.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "loop vectorized" in done.stderr


def test_vectors_are_as_long_as_the_processor_has_them(tmp_path: Path) -> None:
    compiler = find_compiler("c")
    lanes = read_host().simd_lanes
    if "free software" not in compiler.version.lower() or lanes < 8:
        pytest.skip("only gcc tells which vectors it forms in this way, and only x86 has vectors of several lengths")
    text = "void f(float* restrict o, const float* restrict a) { for (int x = 0; x < 4096; x++) o[x] = a[x] + 1; }"
    (tmp_path / "loop.c").write_text(text)
    command = [*compiler.command, *kernel_flags(), "-fopt-info-vec-optimized", "-c", "loop.c", "-o", "loop.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"{4 * lanes} byte vectors" in done.stderr


@pytest.mark.parametrize(("lanes", "bits"), [(16, 512), (8, 256), (4, None)])
def test_long_vectors_are_asked_for_where_there_are_any(
    lanes: int, bits: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = replace(read_host(), simd_lanes=lanes)
    monkeypatch.setattr(host_compiler, "read_host", lambda: host)
    host_compiler.machine_flags.cache_clear()
    try:
        asked = [flag for flag in kernel_flags() if flag.startswith("-mprefer-vector-width")]
        assert asked == ([] if bits is None else [f"-mprefer-vector-width={bits}"])
    finally:
        host_compiler.machine_flags.cache_clear()


@pytest.mark.parametrize(("lanes", "is_without"), [(16, False), (8, True), (4, False)])
def test_gathers_of_eight_floats_are_switched_off(
    lanes: int, is_without: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = find_compiler()
    if gnu_version(compiler) is None or platform.machine() != "x86_64":
        pytest.skip("only gcc has the option, and only for x86")
    host = replace(read_host(), simd_lanes=lanes)
    monkeypatch.setattr(host_compiler, "read_host", lambda: host)
    host_compiler.machine_flags.cache_clear()
    try:
        found = [flag for flag in host_compiler.processor_options(compiler) if flag in host_compiler.NO_GATHERS]
    finally:
        host_compiler.machine_flags.cache_clear()
    assert len(found) == is_without


def test_without_openmp_the_flag_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = _fake_compiler(tmp_path / "cc", 'case "$* " in *"-fopenmp "*) echo "no openmp" >&2; exit 1;; esac')
    monkeypatch.setenv("AUTOSCHED_CC", str(wrapper))
    assert "-fopenmp" not in kernel_flags()
    assert "-fopenmp-simd" in kernel_flags(), "lanes are for vectors, with or without threads"
    assert ctypes.CDLL(str(compile_shared_library(ADD))).add(1, 2) == 3


@pytest.mark.parametrize(
    ("version", "careful"),
    [((9, 4), True), ((12, 3), True), ((12, 4), False), ((13, 2), True), ((13, 3), False), ((14, 1), False)],
)
def test_gcc_that_may_lose_stores_is_told_not_to(version: tuple[int, int], careful: bool) -> None:
    assert ("-fno-ivopts" in kernel_options(version)) == careful
    assert "-ffp-contract=off" in kernel_options(version)
    assert "-fno-loop-interchange" in kernel_options(version)
    assert ("-fno-bit-tests" in kernel_options(version)) == (version >= (12, 0))  # older ones reject it


def test_the_version_of_gcc_is_the_one_that_it_tells() -> None:
    compiler = find_compiler()
    if "free software" not in compiler.version.lower():
        pytest.skip("this compiler is not gcc")
    told = subprocess.run([*compiler.command, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout
    found = gnu_version(compiler)
    assert found is not None
    assert told.startswith(f"{found[0]}.{found[1]}.")


def test_clang_is_not_asked_for_what_it_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses optimisations that it has never heard of, where gcc's parameters only make it complain."""
    unknown = 'case "$*" in *-fno-loop-interchange*|*-fno-ivopts*|*--param*) echo "unknown argument" >&2; exit 1;; esac'
    macros = (
        'case "$*" in *-dM*) printf "#define __GNUC__ 4\n#define __GNUC_MINOR__ 2\n#define __clang__ 1\n"; exit;; esac'
    )
    monkeypatch.setenv("AUTOSCHED_CC", str(_fake_compiler(tmp_path / "cc", f"{unknown}\n{macros}")))
    assert gnu_version(find_compiler()) is None
    assert ctypes.CDLL(str(compile_shared_library(ADD))).add(1, 2) == 3


@pytest.mark.parametrize("known", [True, False])
def test_gathers_are_asked_for_where_they_are_fast(
    known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a gcc with the option; this machine's may lack it."""
    answer = "exit 0" if known else 'echo "unknown option" >&2; exit 1'
    wrapper = _fake_compiler(tmp_path / "cc", f'case "$*" in *-mgather*/dev/null*) {answer};; esac')
    monkeypatch.setenv("AUTOSCHED_CC", str(wrapper))
    monkeypatch.setattr(host_compiler, "gnu_version", lambda compiler: (14, 2))
    for fast in (True, False):
        monkeypatch.setattr(host_compiler, "has_fast_gathers", lambda fast=fast: fast)
        assert ("-mgather" in kernel_flags()) == (known and fast)


def test_clang_is_told_of_functions_of_vectors_and_of_lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = _fake_compiler(tmp_path / "cc", 'case "$*" in *-fveclib=*/dev/null*|*-mllvm*/dev/null*) exit 0;; esac')
    monkeypatch.setenv("AUTOSCHED_CC", str(wrapper))
    monkeypatch.setattr(host_compiler, "gnu_version", lambda compiler: None)
    for there in (True, False):
        monkeypatch.setattr(host_compiler, "has_vector_math", lambda there=there: there)
        assert ("-fveclib=libmvec" in kernel_flags()) == there
        assert f"-unroll-full-max-count={read_host().simd_lanes - 1}" in kernel_flags()


def test_clang_is_not_told_what_it_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = 'case "$*" in *-fveclib=*|*-mllvm*) echo "unknown" >&2; exit 1;; esac'
    monkeypatch.setenv("AUTOSCHED_CC", str(_fake_compiler(tmp_path / "cc", refuse)))
    monkeypatch.setattr(host_compiler, "gnu_version", lambda compiler: None)
    monkeypatch.setattr(host_compiler, "has_vector_math", lambda: True)
    assert not {"-fveclib=libmvec", "-mllvm"} & set(kernel_flags())


def test_second_compilation_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = _fake_compiler(tmp_path / "cc", "")
    monkeypatch.setenv("AUTOSCHED_CC", str(wrapper))
    first = compile_shared_library(ADD, flags=["-O1"])
    assert compile_shared_library(ADD, flags=["-O1"]) == first
    assert _compilations(wrapper) == 1
    assert compile_shared_library(ADD, flags=["-O2"]) != first
    assert compile_shared_library(ADD + "\n", flags=["-O1"]) != first
    assert _compilations(wrapper) == 3


def test_a_damaged_library_is_built_again() -> None:
    path = compile_shared_library(ADD, flags=["-O1"])
    path.write_bytes(path.read_bytes()[:100])
    assert ctypes.CDLL(str(compile_shared_library(ADD, flags=["-O1"]))).add(1, 2) == 3


def test_another_compiler_version_builds_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host_compiler._version_of.cache_clear()
    wrapper = _fake_compiler(tmp_path / "cc", '[ "$*" = --version ] && echo upgraded')
    monkeypatch.setenv("AUTOSCHED_CC", str(wrapper))
    compile_shared_library(ADD, flags=["-O1"])
    host_compiler._version_of.cache_clear()
    wrapper.write_text(wrapper.read_text().replace("upgraded", "upgraded again"))
    compile_shared_library(ADD, flags=["-O1"])
    assert _compilations(wrapper) == 2


def test_native_code_of_another_cpu_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    here = compile_shared_library(ADD, flags=["-march=native"])
    portable = compile_shared_library(ADD, flags=["-O1"])
    monkeypatch.setattr(host_compiler, "_predefined_macros", lambda compiler, flags: "another CPU")
    assert compile_shared_library(ADD, flags=["-march=native"]) != here
    assert compile_shared_library(ADD, flags=["-O1"]) == portable


def test_predefined_macros_tell_cpus_apart() -> None:
    compiler = find_compiler()
    plain = host_compiler._predefined_macros(compiler, ("-O2",))
    assert host_compiler._predefined_macros(compiler, ("-O2", "-march=native")) != plain


def test_a_refused_source_shows_the_log_and_the_line() -> None:
    source = "int before;\nint f(void) {\n    return missing_name;\n}\n"
    with pytest.raises(CompileError, match=r"refused the generated source kernel\.c") as caught:
        compile_shared_library(source)
    assert "> 3 |     return missing_name;" in str(caught.value)
    assert "'missing_name' undeclared" in caught.value.log or "undeclared identifier" in caught.value.log
    assert "/tmp" not in caught.value.log
    assert caught.value.source == source


def test_an_internal_error_of_the_compiler_is_got_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fails = 'case "$*" in *-O1*) ;; *kernel.c*) echo "k.c:1:1: internal compiler error: in finalize" >&2; exit 1;; esac'
    wrapper = _fake_compiler(tmp_path / "cc", fails)
    monkeypatch.setenv("AUTOSCHED_CC", str(wrapper))
    path = compile_shared_library("int twice_of_it(int x) { return 2 * x; }", "c", ("-O3",))
    assert ctypes.CDLL(str(path)).twice_of_it(21) == 42
    assert "has an internal error" in caplog.text and "-O1" in caplog.text


def test_lines_of_renamed_sources_are_not_mistaken_for_ours() -> None:
    with pytest.raises(CompileError) as caught:
        compile_shared_library('int a;\n#line 1 "other.h"\nint f(void) { return missing_name; }\n')
    assert "other.h:1" in caught.value.log
    assert " | " not in str(caught.value).split(caught.value.log)[0]


def test_no_compiler_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("CC", "CXX", "AUTOSCHED_CC", "AUTOSCHED_CXX"):
        monkeypatch.delenv(variable, raising=False)
    assert not have_compiler("c")
    assert not have_compiler("c++")
    with pytest.raises(CompileError, match=r"no C compiler was found: install gcc.*NumPy interpreter"):
        compile_shared_library(ADD)
    with pytest.raises(CompileError, match=r"no C\+\+ compiler was found.*AUTOSCHED_CXX"):
        compile_shared_library(ADD, "c++")


def test_a_named_compiler_that_is_missing_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CC", "no-such-compiler -m64")
    assert not have_compiler()
    with pytest.raises(CompileError, match="AUTOSCHED_CC names 'no-such-compiler', which does not exist"):
        find_compiler()


def test_a_compiler_may_be_several_words(monkeypatch: pytest.MonkeyPatch) -> None:
    program = find_compiler().command[0]
    monkeypatch.setenv("AUTOSCHED_CC", f"{program} -DANSWER=42")
    library = ctypes.CDLL(str(compile_shared_library("int f(void) { return ANSWER; }")))
    assert library.f() == 42


def test_the_first_on_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CC", "AUTOSCHED_CC"):
        monkeypatch.delenv(variable, raising=False)
    real = find_compiler().command[0]
    (tmp_path / "gcc").symlink_to(shutil.which(real) or real)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler().command == (str(tmp_path / "gcc"),)


def test_a_compiler_that_does_not_run_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho my license expired >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("AUTOSCHED_CC", str(broken))
    with pytest.raises(CompileError, match="license expired"):
        find_compiler()
    assert not have_compiler()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('case "$*" in *-o*) exit 0;; esac', "reports success but has written no library: set AUTOSCHED_CC"),
        ('case "$*" in *-o*kernel*|*kernel.c*) kill -SEGV $$;; esac', "was ended by signal 11: set AUTOSCHED_CC"),
        ('case "$*" in *--version*) sleep 100;; esac', "did not finish in 0.5 s: set AUTOSCHED_CC"),
        ('case "$*" in *kernel.c*) sleep 100;; esac', "did not finish in 0.5 s: set AUTOSCHED_CC"),
    ],
    ids=["writes nothing", "crashes", "hangs", "hangs on a source"],
)
def test_a_compiler_that_does_not_do_its_work_is_named(
    body: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = _fake_compiler(tmp_path / "cc", body)
    monkeypatch.setenv("AUTOSCHED_CC", str(wrapper))
    if "sleep" in body:
        monkeypatch.setattr(host_compiler._run, "__defaults__", (0.5,))
        monkeypatch.setattr(host_compiler, "_PROBE_TIME_LIMIT_S", 0.5)
    with pytest.raises(CompileError, match=message) as caught:
        compile_shared_library(ADD)
    assert str(wrapper) in str(caught.value)
    assert "cache" not in str(caught.value).lower()
