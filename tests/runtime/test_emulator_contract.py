"""The two preludes define the same contract, and texts that violate it are refused with the reason."""

from __future__ import annotations

from importlib import resources
from typing import Any

import numpy as np
import pytest

from autosched.codegen.prelude import scalar_prelude
from autosched.errors import CompileError, InputError, LaunchError
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.runtime.emulator import ParamSpec, compile_emulated
from autosched.runtime.emulator.kernel_text import read_kernel_text

F32 = np.dtype(np.float32)

# Every macro of the contract, every memory, all kinds of parameters.
EVERYTHING = """
KERNEL(everything, 64)(GLOBAL_IN(float, a, 256), GLOBAL_IN(unsigned char, mask, 256), GLOBAL_OUT(double, out, 256),
                       SCALAR(int, shift), SCALAR(bool, negate)) {
    SHARED(float, tile, 64, 0);
    SHARED(unsigned char, bits, 64, 256);
    const int t = threadIdx.x + 8 * threadIdx.y;
    const int x = blockIdx.x * 64 + t;
    STORE(0, tile, t, LOAD(1, a, x));
    STORE(2, bits, t, LOAD(3, mask, x));
    BARRIER();
    REGISTER(float, window, 4);
    UNROLL
    for (int i = 0; i < 4; i++) {
        ITER(0, i);
        STORE(4, window, i, LOAD(5, tile, as_mod_i32(t + i * shift, 64)));
    }
    double sum = 0.0;
    for (int i = 0; i < 4; i++) {
        ITER(0, i);
        if (LOAD(6, bits, t) & 1 << i) { sum += LOAD(7, window, i); }
    }
    STORE(8, out, x, negate ? -sum : sum);
}
"""
EVERYTHING_PARAMS = [
    ParamSpec("in", F32, "a", 256),
    ParamSpec("in", np.dtype(np.uint8), "mask", 256),
    ParamSpec("out", np.dtype(np.float64), "out", 256),
    ParamSpec("scalar", np.dtype(np.int32), "shift"),
    ParamSpec("scalar", np.dtype(np.bool_), "negate"),
]

needs_compiler = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")


@needs_compiler
@pytest.mark.parametrize("traced", [False, True])
def test_every_macro_in_the_emulator(traced: bool) -> None:
    kernel = compile_emulated(
        EVERYTHING, "everything", EVERYTHING_PARAMS, common_prelude=scalar_prelude(), traced=traced
    )
    generator = np.random.default_rng(0)
    a, mask = generator.random(256, dtype=np.float32), generator.integers(0, 256, 256, dtype=np.uint8)
    out = np.zeros(256)
    trace = kernel.launch((4, 1, 1), (8, 8, 1), 320, [a, mask, out, -3, True], seed=5)
    expected = np.zeros(256)
    for i in range(4):
        shifted = a.reshape(4, 64)[:, (np.arange(64) - 3 * i) % 64].ravel()
        expected += np.where(mask & 1 << i, shifted, np.float32(0))
    np.testing.assert_array_equal(out, -expected)
    assert (trace is not None) == traced


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_macro_under_nvrtc(arch: str) -> None:
    macros = resources.files("autosched.codegen.prelude").joinpath("cuda.h").read_text()
    cubin = compile_cubin(macros + scalar_prelude() + EVERYTHING, arch)
    resources_used = cubin.kernels["everything"]
    assert resources_used.spill_store_bytes == 0
    # The loop over the register array is unrolled, so the array needs no memory.
    assert resources_used.stack_bytes == 0


@needs_compiler
def test_half_precision_is_stored_as_its_bits() -> None:
    body = """
KERNEL(halve, 32)(GLOBAL_IN(unsigned short, a, 32), GLOBAL_OUT(unsigned short, b, 32)) {
    const float value = as_f16_to_f32(LOAD(0, a, threadIdx.x));
    STORE(1, b, threadIdx.x, as_f32_to_f16(value * 0.5f));
}
"""
    half = np.dtype(np.float16)
    params = [ParamSpec("in", half, "a", 32), ParamSpec("out", half, "b", 32)]
    kernel = compile_emulated(body, "halve", params, common_prelude=scalar_prelude())
    a = np.arange(32).astype(half)
    b = np.zeros_like(a)
    kernel.launch((1, 1, 1), (32, 1, 1), 0, [a, b])
    np.testing.assert_array_equal(b, a / 2)


@needs_compiler
def test_products_and_sums_are_rounded_separately() -> None:
    # With a = 1 + 2^-12 the product a * a needs more than 24 bits; a fused operation would keep the rest.
    body = """
KERNEL(fused, 1)(GLOBAL_IN(float, a, 1), GLOBAL_OUT(float, b, 1)) {
    const float x = LOAD(0, a, 0);
    STORE(1, b, 0, x * x - 1.0f);
}
"""
    kernel = compile_emulated(
        body, "fused", [ParamSpec("in", F32, "a", 1), ParamSpec("out", F32, "b", 1)], common_prelude=""
    )
    a, b = np.array([1 + 2**-12], F32), np.zeros(1, F32)
    kernel.launch((1, 1, 1), (1, 1, 1), 0, [a, b])
    assert b[0] == a[0] * a[0] - F32.type(1)


def test_sites_know_their_scope_and_loop_depth() -> None:
    text = read_kernel_text("""
KERNEL(k, 32)(GLOBAL_IN(float, a, 4), GLOBAL_OUT(float, b, 4)) {
    if (blockIdx.x == 0) {
        SHARED(double, s, 4, 0);
        for (int i = 0; i < LOAD(0, a, 0); i++) {
            ITER(0, i);
            { STORE(1, s, i, 0); }
            for (int j = 0; j < 2; j++) { ITER(1, j); STORE(2, b, j, LOAD(3, s, j)); }
            STORE(4, s, 3, 1);
        }
    } else {
        REGISTER(unsigned short, s, 6);  /* the same name,
                                            another memory */
        STORE(5, s, 0, 0);
    }
}
""")
    found = {number: (site.space, site.element_bytes, site.depth, site.line) for number, site in text.sites.items()}
    assert found == {
        0: ("global", 4, 0, 5),
        1: ("shared", 8, 1, 7),
        2: ("global", 4, 2, 8),
        3: ("shared", 8, 2, 8),
        4: ("shared", 8, 1, 9),
        5: ("register", 2, 0, 14),
    }
    assert (text.name, text.max_threads, text.max_depth, text.register_bytes) == ("k", 32, 2, 12)
    assert not text.has_barrier


SCALE = """
KERNEL(scale, 32)(GLOBAL_IN(float, a, 64), GLOBAL_OUT(float, b, 64), SCALAR(float, k)) {
    const int x = blockIdx.x * 32 + threadIdx.x;
    STORE(0, b, x, LOAD(1, a, x) * k);
}
"""
SCALE_PARAMS = [ParamSpec("in", F32, "a", 64), ParamSpec("out", F32, "b", 64), ParamSpec("scalar", F32, "k")]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("LOAD(1", "LOAD(0", "line 4: site 0 is used twice"),
        ("LOAD(1, a", "LOAD(1, c", "line 4: LOAD of c, which no macro declares"),
        ("LOAD(1", "LOAD(one", "line 4: LOAD does not follow"),
        ("float, a, 64", "float, a, 8 * 8", "line 2: GLOBAL_IN does not follow"),
        ("float, a", "half, a", "line 2: half is not an element type"),
        ("KERNEL(scale", "KERNEL(other", "defines other, not scale"),
        ("KERNEL(scale, 32)", "void scale", "has no KERNEL"),
        ("float, a, 64", "float, a, 65", r"name='a', count=64\) expected, but the generated code has .*count=65"),
        (", SCALAR(float, k)", "", "3 parameters expected"),
        ("}", "}}", "line 5: unbalanced braces"),
        ("const int", "REGISTER(int, r, 131073); const int", "524292 bytes of register arrays"),
    ],
)
def test_text_that_does_not_follow_the_contract(old: str, new: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        compile_emulated(SCALE.replace(old, new, 1), "scale", SCALE_PARAMS, common_prelude="")


@needs_compiler
def test_site_depths_must_agree_with_the_text() -> None:
    with pytest.raises(InputError, match="the text has"):
        compile_emulated(SCALE, "scale", SCALE_PARAMS, common_prelude="", site_depths=[0, 1])
    with pytest.raises(CompileError, match="undeclared"):
        compile_emulated(SCALE.replace("* k", "* undeclared"), "scale", SCALE_PARAMS, common_prelude="")


@needs_compiler
def test_arguments_are_checked() -> None:
    kernel = compile_emulated(SCALE, "scale", SCALE_PARAMS, common_prelude="")
    a, b = np.zeros((8, 8), F32), np.zeros(64, F32)
    read_only = b.copy()
    read_only.flags.writeable = False

    def refused(args: list[Any], reason: str) -> None:
        with pytest.raises(InputError, match=reason):
            kernel.launch((2, 1, 1), (32, 1, 1), 0, args)

    refused([a, b], "takes 3 arguments, not 2")
    refused([a[:7], b, 1.0], "a is an array of 64 elements of float32, not 56")
    refused([a.astype(np.float64), b, 1.0], "not 64 of float64")
    refused([a.T[:], b, 1.0], "a is not C-contiguous")
    refused([[0.0] * 64, b, 1.0], "not list")
    refused([a, read_only, 1.0], "b is written by the kernel")
    refused([a, a.reshape(-1), 1.0], "b overlaps a in memory")

    def cannot_launch(grid: tuple[int, ...], block: tuple[int, ...], reason: str, **more: Any) -> None:
        with pytest.raises(LaunchError, match=reason):
            kernel.launch(grid, block, more.pop("shared", 0), [a, b, 1.0], **more)

    cannot_launch((2, 1, 1), (33, 1, 1), "33 threads per block, but it was compiled for 32")
    cannot_launch((0, 1, 1), (32, 1, 1), "grid")
    cannot_launch((2, 1 << 16, 1), (32, 1, 1), "grid")
    cannot_launch((2, 1, 1), (1, 1, 65), "block")
    cannot_launch((2, 1), (32, 1, 1), "three sizes")
    cannot_launch((1 << 28, 1, 1), (32, 1, 1), "too large to emulate")
    kernel.launch((1 << 28, 1, 1), (32, 1, 1), 0, [a, b, 1.0], blocks=[(1, 0, 0)])
    cannot_launch((2, 1, 1), (32, 1, 1), "bytes of shared memory", shared=-1)
    cannot_launch((2, 1, 1), (32, 1, 1), "is not in the grid", blocks=[(2, 0, 0)])
