"""Relaxed launch bounds of generated kernels that spill although registers are free."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.codegen.cuda import cuda_prelude
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.runtime.call.launch_bounds import relax_launch_bounds
from autosched.runtime.compile import nvrtc
from autosched.runtime.compile.nvrtc import NvrtcOptions, compile_cubin, have_nvrtc

pytestmark = [
    pytest.mark.usefixtures("cache_dir"),
    pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed"),
]

KERNEL = """
KERNEL(twice, 64)(GLOBAL_IN(float, a, 64), GLOBAL_OUT(float, b, 64)) {
    STORE(0, b, threadIdx.x, LOAD(1, a, threadIdx.x) * 2.0f);
}
"""
LOG = """ptxas info    : Compiling entry function 'twice' for 'sm_90'
ptxas info    : Function properties for twice
    {0} bytes stack frame, {0} bytes spill stores, {1} bytes spill loads
ptxas info    : Used {2} registers
"""


def test_heads_of_kernels_are_all_that_changes() -> None:
    source = cuda_prelude() + KERNEL
    changed = relax_launch_bounds(source)
    assert changed.replace("KERNEL(twice, 64, 1)(", "KERNEL(twice, 64)(") == source != changed
    assert relax_launch_bounds(changed) == changed
    assert relax_launch_bounds(cuda_prelude()) == cuda_prelude()


def test_a_kernel_that_ptxas_makes_spill_does_so_no_longer() -> None:
    body = (Path(__file__).parent / "data" / "conv_layer.cu").read_text()
    source = f"{cuda_prelude(body)}\n{scalar_prelude(called_scalar_functions(body))}\n{body}"
    alone = compile_cubin(source, "sm_90", NvrtcOptions(relax_launch_bounds=False))
    assert not alone.has_relaxed_bounds
    compiled = compile_cubin(source, "sm_90")
    assert compiled.spill_bytes == 0
    assert compiled.has_relaxed_bounds == (alone.spill_bytes > 0)  # NVRTC 13.5 spills 48 bytes with 48 registers


@pytest.mark.parametrize(("with_room_bytes", "kept"), [(0, True), (24, True), (40, False), (56, False)])
def test_what_spills_less_is_kept(with_room_bytes: int, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = []

    def compiler(source: str, arch: str, options: NvrtcOptions, name: str) -> tuple[bytes, str]:
        sources.append(source)
        first = len(sources) == 1
        return str(len(sources)).encode(), LOG.format(*((16, 24, 32) if first else (0, with_room_bytes, 64)))

    monkeypatch.setattr(nvrtc, "_compile", compiler)
    for _ in range(2):  # the second time from the cache
        found = compile_cubin(cuda_prelude() + KERNEL, "sm_90", name="twice")
        assert sources == [cuda_prelude() + KERNEL, relax_launch_bounds(cuda_prelude() + KERNEL)]
        assert found.has_relaxed_bounds == kept
        assert found.code == (b"2" if kept else b"1")
        assert found.spill_bytes == (with_room_bytes if kept else 40)
        assert found.kernels["twice"].registers == (64 if kept else 32)
        assert ("40 bytes a thread" in found.log) == kept


def test_text_that_is_not_generated_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log = LOG.format(16, 24, 32)
    calls = []
    monkeypatch.setattr(nvrtc, "_compile", lambda *a: (calls.append(a), (b"code", log))[1])
    assert not compile_cubin('extern "C" __global__ void twice(float* a) {}', "sm_90").has_relaxed_bounds
    assert len(calls) == 1
