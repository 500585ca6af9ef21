"""The emulator runs correct kernels correctly for every thread order, and notices a removed barrier."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.emulator import EmulatedKernel, EmulatorError, ErrorKind, ParamSpec, compile_emulated

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")

F32 = np.dtype(np.float32)
I32 = np.dtype(np.int32)

HEIGHT, WIDTH = 37, 53

# A 3x3 sum with edges repeated: 16x8 threads stage an 18x10 tile, then each computes one point.
STENCIL = f"""
KERNEL(box, 128)(GLOBAL_IN(float, img, {HEIGHT * WIDTH}), GLOBAL_OUT(float, out, {HEIGHT * WIDTH}), SCALAR(float, k)) {{
    SHARED(float, tile, 180, 0);
    const int x0 = blockIdx.x * 16, y0 = blockIdx.y * 8;
    const int thread = threadIdx.x + 16 * threadIdx.y;
    for (int i = 0; i < 2; i++) {{
        ITER(0, i);
        const int p = thread + 128 * i;
        if (p < 180) {{
            int x = x0 + p % 18 - 1, y = y0 + p / 18 - 1;
            x = x < 0 ? 0 : x > {WIDTH - 1} ? {WIDTH - 1} : x;
            y = y < 0 ? 0 : y > {HEIGHT - 1} ? {HEIGHT - 1} : y;
            STORE(0, tile, p, LOAD(1, img, y * {WIDTH} + x));
        }}
    }}
    BARRIER();
    const int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
    if (x < {WIDTH} && y < {HEIGHT}) {{
        REGISTER(float, row, 3);
        UNROLL
        for (int dy = 0; dy < 3; dy++) {{
            ITER(0, dy);
            const int at = (threadIdx.y + dy) * 18 + threadIdx.x;
            STORE(2, row, dy, LOAD(3, tile, at) + LOAD(4, tile, at + 1) + LOAD(5, tile, at + 2));
        }}
        STORE(6, out, y * {WIDTH} + x, (LOAD(7, row, 0) + LOAD(8, row, 1) + LOAD(9, row, 2)) * k);
    }}
}}
"""
STENCIL_GRID, STENCIL_BLOCK, STENCIL_SHARED = (4, 5, 1), (16, 8, 1), 720


def out(name: str, count: int, dtype: np.dtype = F32) -> ParamSpec:
    return ParamSpec("out", dtype, name, count)


def into(name: str, count: int, dtype: np.dtype = F32) -> ParamSpec:
    return ParamSpec("in", dtype, name, count)


def compile_text(body: str, *params: ParamSpec) -> EmulatedKernel:
    return compile_emulated(body, body.split("KERNEL(")[1].split(",")[0], params, common_prelude="")


def box(image: npt.NDArray[np.float32], k: float) -> npt.NDArray[np.float32]:
    padded = np.pad(image, 1, mode="edge")
    rows = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    result: npt.NDArray[np.float32] = (rows[:-2] + rows[1:-1] + rows[2:]) * np.float32(k)
    return result


def compile_stencil(body: str = STENCIL) -> EmulatedKernel:
    count = HEIGHT * WIDTH
    return compile_text(body, into("img", count), out("out", count), ParamSpec("scalar", F32, "k"))


def run_stencil(kernel: EmulatedKernel, seed: int = 0, workers: int = 1) -> npt.NDArray[np.float32]:
    image = np.random.default_rng(1).random((HEIGHT, WIDTH), dtype=np.float32)
    result = np.full_like(image, np.nan)
    kernel.launch(STENCIL_GRID, STENCIL_BLOCK, STENCIL_SHARED, [image, result, 0.125], seed=seed, workers=workers)
    np.testing.assert_array_equal(result, box(image, 0.125))
    return result


def test_stencil_through_shared_memory_equals_numpy_for_any_thread_order() -> None:
    kernel = compile_stencil()
    for seed in range(5):
        run_stencil(kernel, seed)
        run_stencil(kernel, seed, workers=3)


@pytest.mark.parametrize("seed", range(3))
def test_a_removed_barrier_is_a_race_or_an_uninitialised_read(seed: int) -> None:
    body = STENCIL.replace("BARRIER();", "")
    with pytest.raises(EmulatorError) as caught:
        run_stencil(compile_stencil(body), seed)
    assert caught.value.kind in (ErrorKind.RACE, ErrorKind.UNINITIALISED_READ)
    assert caught.value.buffer == "tile"
    assert caught.value.block == (0, 0, 0)


def test_shared_buffer_beyond_the_bytes_of_the_launch() -> None:
    kernel = compile_stencil()
    image = np.zeros((HEIGHT, WIDTH), np.float32)
    with pytest.raises(EmulatorError, match="tile ends at byte 720") as caught:
        kernel.launch(STENCIL_GRID, STENCIL_BLOCK, 719, [image, image.copy(), 1.0])
    assert caught.value.kind is ErrorKind.SHARED_SIZE


def test_indices_in_three_dimensions_and_a_subset_of_blocks() -> None:
    body = """
KERNEL(where, 24)(GLOBAL_OUT(int, b, 576)) {
    const int block = blockIdx.x + 2 * (blockIdx.y + 3 * blockIdx.z);
    const int thread = threadIdx.x + 3 * (threadIdx.y + 2 * threadIdx.z);
    STORE(0, b, block * 24 + thread, thread);
}
"""
    kernel = compile_text(body, out("b", 576, I32))
    b = np.full((24, 24), -1, np.int32)
    kernel.launch((2, 3, 4), (3, 2, 4), 0, [b])
    np.testing.assert_array_equal(b, np.tile(np.arange(24), (24, 1)))
    b[:] = -1
    kernel.launch((2, 3, 4), (3, 2, 4), 0, [b], blocks=[(1, 2, 3), (0, 1, 0)])
    assert sorted(set(np.nonzero(b[:, 0] >= 0)[0])) == [2, 23]


def test_large_register_arrays_fit_the_stack() -> None:
    body = """
KERNEL(deep, 64)(GLOBAL_OUT(double, b, 64)) {
    REGISTER(double, r, 20000);
    for (int i = 0; i < 20000; i++) { STORE(0, r, i, i); }
    BARRIER();
    double sum = 0;
    for (int i = 0; i < 20000; i++) { sum += LOAD(1, r, i); }
    STORE(2, b, threadIdx.x, sum);
}
"""
    b = np.zeros(64)
    compile_text(body, out("b", 64, np.dtype(np.float64))).launch((1, 1, 1), (64, 1, 1), 0, [b])
    np.testing.assert_array_equal(b, np.full(64, 20000 * 19999 / 2))
