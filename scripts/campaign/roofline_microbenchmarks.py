"""Measured peak rates of this device: copied bytes, multiply-adds, and launch overhead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.runtime.call.launcher import CudaModule
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.target import Target
from campaign.warm_timing import Call, Clock, EventClock, Figures, HostClock, timed

COPIED_BYTES = 1 << 30
"""Bytes of the copy, much larger than any cache."""
CHAINS = 8
"""Independent multiply-adds of a thread, to hide their latency."""
_STEPS, _UNROLLED = 512, 32
_THREADS, _BLOCKS_PER_SM = 256, 8
_HOST_COPIED_BYTES = 1 << 27
_ONE_UNIT_A_SLOT = (8, 6)
"""First compute capability, but for 8.0, with a float32 unit for each lane of each issue slot."""

SOURCE = f"""
extern "C" __global__ void __launch_bounds__(256) copy(const uint4* __restrict__ a, uint4* __restrict__ b)
{{
    const unsigned i = blockIdx.x * 1024u + threadIdx.x;
    const uint4 v0 = a[i], v1 = a[i + 256], v2 = a[i + 512], v3 = a[i + 768];
    b[i] = v0;
    b[i + 256] = v1;
    b[i + 512] = v2;
    b[i + 768] = v3;
}}
template <class T> __device__ __forceinline__ void multiply_add(T* out, const T s, const T t)
{{
    T v[{CHAINS}];
    #pragma unroll
    for (int k = 0; k < {CHAINS}; ++k) v[k] = (T)(threadIdx.x + k);
    for (int i = 0; i < {_STEPS}; ++i) {{
        #pragma unroll
        for (int j = 0; j < {_UNROLLED}; ++j) {{
            #pragma unroll
            for (int k = 0; k < {CHAINS}; ++k) v[k] = v[k] * s + t;
        }}
    }}
    T sum = 0;
    #pragma unroll
    for (int k = 0; k < {CHAINS}; ++k) sum += v[k];
    if (sum == (T)-1) out[threadIdx.x] = sum;  // never, but the compiler does not know
}}
extern "C" __global__ void __launch_bounds__(256) fma32(float* out, const float s, const float t)
{{
    multiply_add(out, s, t);
}}
extern "C" __global__ void __launch_bounds__(256) fma64(double* out, const double s, const double t)
{{
    multiply_add(out, s, t);
}}
extern "C" __global__ void nothing() {{}}
"""


def gpu_ceilings(target: Target, clock: Clock | None = None) -> dict[str, Any]:
    """Return the rates of the current GPU: bytes a second (read plus written), operations a second, launches.

    A multiply-add counts as two operations. As it takes an issue slot, its rate is that of a lane's instructions.
    ``launch_s`` is the time from one empty kernel to the next.

    Args:
        target: The GPU.
        clock: Clock for timing (default: events of the GPU).
    """
    import cupy

    module = CudaModule(compile_cubin(SOURCE, target.arch, name="ceilings").code)
    by = clock or EventClock()
    a, b = (cupy.empty(COPIED_BYTES, np.uint8) for _ in range(2))
    a[...] = cupy.random.randint(0, 256, 1 << 20, np.uint8).repeat(COPIED_BYTES >> 20)  # zeros may be faster
    blocks = target.multiprocessors * _BLOCKS_PER_SM

    def kernel(name: str, grid: int, *arguments: Any) -> Call:
        return lambda: module.launch(name, (grid, 1, 1), (_THREADS, 1, 1), arguments)

    copies = {
        "copy": timed(kernel("copy", COPIED_BYTES >> 14, a, b), by),
        "memcpy": timed(lambda: cupy.cuda.runtime.memcpyAsync(
            b.data.ptr, a.data.ptr, COPIED_BYTES, cupy.cuda.runtime.memcpyDeviceToDevice,
            cupy.cuda.get_current_stream().ptr), by),
    }  # fmt: skip
    fast = min(copies.values(), key=lambda f: f.seconds)
    operations = 2 * blocks * _THREADS * CHAINS * _STEPS * _UNROLLED
    fma = {
        "float32": timed(kernel("fma32", blocks, a, np.float32(0.5), np.float32(1)), by),
        "float64": timed(kernel("fma64", blocks, a, np.float64(0.5), np.float64(1)), by),
    }
    instructions = {"instructions_per_s": operations / 2 / fma["float32"].seconds}
    return {
        "bytes_per_s": 2 * COPIED_BYTES / fast.seconds,
        **(instructions if target.compute_capability >= _ONE_UNIT_A_SLOT else {}),
        "float32_per_s": operations / fma["float32"].seconds,
        "float64_per_s": operations / fma["float64"].seconds,
        "launch_s": timed(lambda: module.launch("nothing", (1, 1, 1), (32, 1, 1), ()), by).seconds,
        "figures": {name: f.as_dict() for name, f in (copies | fma).items()},
    }


def host_ceilings() -> dict[str, Any]:
    """Return the memory copy rate of one core of this machine; arithmetic is not measured."""
    a = np.random.default_rng(0).integers(0, 256, _HOST_COPIED_BYTES, np.uint8)
    b = np.empty_like(a)
    copy: Callable[[], Any] = lambda: np.copyto(b, a)  # noqa: E731
    found: Figures = timed(copy, HostClock(), samples=5, warm_s=0.0)
    return {"bytes_per_s": 2 * _HOST_COPIED_BYTES / found.seconds, "figures": {"copy": found.as_dict()}}


def floor_seconds(work: dict[str, int], ceilings: dict[str, Any]) -> dict[str, float]:
    """Return the least seconds of a pipeline for each resource; resources without a measured rate are left out.

    Args:
        work: `campaign.minimum_work.Work` as a dict.
        ceilings: Result of `gpu_ceilings` or `host_ceilings`.
    """
    rates = {name: ceilings.get(f"{name}_per_s") for name in ("bytes", "float32", "float64", "instructions")}
    return {name: work[name] / rate for name, rate in rates.items() if rate and name in work}
