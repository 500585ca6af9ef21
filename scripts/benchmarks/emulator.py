"""Time the CUDA emulator: 262,144 threads with one barrier each, and the compilation of one kernel."""

from __future__ import annotations

import argparse
import time

import numpy as np

from autosched.runtime.emulator import EmulatedKernel, ParamSpec, compile_emulated

COUNT = 1 << 18


def compile_reverse(threads: int, traced: bool, salt: str) -> EmulatedKernel:
    """Compile a kernel whose blocks reverse their elements through shared memory; ``salt`` defeats the cache."""
    body = f"""
KERNEL(reverse, {threads})(GLOBAL_IN(float, a, {COUNT}), GLOBAL_OUT(float, b, {COUNT})) {{
    SHARED(float, s, {threads}, 0);
    const int t = threadIdx.x, start = blockIdx.x * {threads};
    STORE(0, s, t, LOAD(1, a, start + t));
    BARRIER();
    STORE(2, b, start + t, LOAD(3, s, {threads - 1} - t));
}}
"""
    float32 = np.dtype(np.float32)
    params = [ParamSpec("in", float32, "a", COUNT), ParamSpec("out", float32, "b", COUNT)]
    return compile_emulated(body, "reverse", params, common_prelude=f"// {salt}", traced=traced)


def main() -> None:
    """Print the times as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=None, help="operating system threads (default: automatic)")
    parser.add_argument("--repeat", type=int, default=5, help="launches; the fastest one counts")
    options = parser.parse_args()
    a = np.arange(COUNT, dtype=np.float32)
    b = np.zeros_like(a)
    compile_reverse(32, False, "warm-up").launch((1, 1, 1), (32, 1, 1), 128, [a, b])
    print(f"{COUNT} threads, one barrier each")
    print("threads/block  traced  compile (s)  launch (s)")
    for threads in (64, 256, 1024):
        for traced in (False, True):
            start = time.perf_counter()
            kernel = compile_reverse(threads, traced, str(time.time_ns()))
            compiled = time.perf_counter() - start
            launches = []
            for _ in range(options.repeat):
                start = time.perf_counter()
                kernel.launch((COUNT // threads, 1, 1), (threads, 1, 1), 4 * threads, [a, b], workers=options.workers)
                launches.append(time.perf_counter() - start)
            print(f"{threads:13}  {traced!s:6}  {compiled:11.3f}  {min(launches):10.3f}")
