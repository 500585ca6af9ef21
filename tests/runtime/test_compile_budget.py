"""The time limit of several sources together."""

from __future__ import annotations

import time

import pytest

from autosched.codegen.cuda import cuda_prelude
from autosched.errors import CompileError
from autosched.runtime.compile.nvrtc import Cubin, have_nvrtc
from autosched.runtime.compile.nvrtc_pool import compile_many

pytestmark = [
    pytest.mark.usefixtures("cache_dir"),
    pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed"),
]
BODY = "KERNEL(k, 32)(GLOBAL_OUT(float, a, 32)) {{ STORE(0, a, threadIdx.x, {}.0f * LOAD(0, a, 3)); }}\n"
SOURCES = [cuda_prelude() + BODY.format(n) for n in range(3)]


def test_nothing_starts_after_the_limit() -> None:
    started = time.process_time()
    errors = compile_many(SOURCES, "sm_90", total_s=0.0)
    assert all(isinstance(e, CompileError) and "the time to compile ended" in str(e) for e in errors)
    assert time.process_time() - started < 0.5


def test_cached_sources_take_no_time() -> None:
    (first,) = compile_many(SOURCES[:1], "sm_90")
    again, other = compile_many(SOURCES[:2], "sm_90", total_s=0.0)
    assert isinstance(again, Cubin)
    assert again == first
    assert isinstance(other, CompileError)


def test_sources_within_the_limit_are_compiled() -> None:
    compiled = compile_many(SOURCES, "sm_90", total_s=300.0, processes=1)
    assert all(isinstance(cubin, Cubin) for cubin in compiled)
