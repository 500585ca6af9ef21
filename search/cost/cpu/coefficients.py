"""Coefficients of the CPU timing model: the time of one unit of each component, by processor.

`scripts/fit_cpu_model.py` evaluates them on another machine, and fits coefficients for it.
"""

from __future__ import annotations

from collections.abc import Mapping

CPU_RATES: dict[str, float] = {
    "vector_arithmetic": 0.22e-9,
    "vector_accesses": 0.15e-9,
    "sums": 0.15e-9,
    "divisions": 0.8e-9,
    "strided_accesses": 0.085e-9,
    "gathered_accesses": 0.2e-9,
    "scalar": 0.058e-9,
    "ends": 0.174e-9,
    "scattered_accesses": 0.145e-9,
    "stalls": 0.09e-9,
    "calls": 2.4e-9,
    "remainders": 0.3e-9,
    "scalar_remainders": 0.7e-9,
    "rows": 1.0e-9,
    "blocks": 5e-9,
    "core_bytes": 0.006e-9,
    "buffer_bytes": 0.027e-9,
    "cache_bytes": 0.015e-9,
    "memory_bytes": 0.058e-9,
    "memory_writes": 0.02e-9,
    "missed_accesses": 0.2e-9,
    "streams": 2.0e-9,
    "chosen_lines": 2.0e-9,
    "kernels": 1600e-9,
    "forks": 1000e-9,
    "steps": 1.0,
}
"""Seconds of one core for one unit of each component, for processors without coefficients of their own.

Fitted to kernels of random pipelines on an AMD EPYC of the fourth generation (gcc 12, a virtual machine with two busy
cores), rounded, and scaled to suite apps on a single core. ``forks`` is for threads that still wait actively after the
kernel before, which takes 0.4 us on two cores; a call of a pipeline wakes them once.
"""

CPU_COMPONENTS = tuple(CPU_RATES)

ZEN4_RATES: Mapping[str, float] = {
    "vector_arithmetic": 0.13e-9,
    "vector_accesses": 0.32e-9,
    "sums": 0.13e-9,
    "divisions": 0.73e-9,
    "strided_accesses": 0.092e-9,
    "gathered_accesses": 0.39e-9,
    "scalar": 0.065e-9,
    "ends": 0.17e-9,
    "scattered_accesses": 0.15e-9,
    "stalls": 0.077e-9,
    "calls": 4.0e-9,
    "remainders": 0.3e-9,
    "scalar_remainders": 1.0e-9,
    "rows": 0.69e-9,
    "blocks": 0.38e-9,
    "core_bytes": 0.0076e-9,
    "buffer_bytes": 0.027e-9,
    "cache_bytes": 0.044e-9,
    "memory_bytes": 0.005e-9,
    "memory_writes": 0.036e-9,
    "missed_accesses": 0.12e-9,
    "streams": 4.6e-9,
    "chosen_lines": 1.7e-9,
    "kernels": 4600e-9,
    "forks": 1000e-9,
    "steps": 0.89,
}
"""Coefficients of an AMD EPYC of the fourth generation (vectors of 16 float32 in two halves, 1 MB of L2 per core).

Fitted to schedules of random pipelines and suite apps, timed interleaved on one core (gcc 12, a virtual machine).
"""

ZEN5_RATES: Mapping[str, float] = {
    "vector_arithmetic": 0.11e-9,
    "vector_accesses": 0.17e-9,
    "sums": 0.4e-9,
    "divisions": 0.48e-9,
    "strided_accesses": 0.086e-9,
    "gathered_accesses": 0.35e-9,
    "scalar": 0.059e-9,
    "ends": 0.095e-9,
    "scattered_accesses": 0.034e-9,
    "stalls": 0.23e-9,
    "calls": 1.7e-9,
    "remainders": 0.3e-9,
    "scalar_remainders": 0.7e-9,
    "rows": 0.05e-9,
    "blocks": 3.6e-9,
    "core_bytes": 0.0053e-9,
    "buffer_bytes": 0.0093e-9,
    "cache_bytes": 0.018e-9,
    "memory_bytes": 0.02e-9,
    "memory_writes": 0.022e-9,
    "missed_accesses": 0.22e-9,
    "streams": 2.5e-9,
    "chosen_lines": 1.2e-9,
    "kernels": 2400e-9,
    "forks": 1000e-9,
    "steps": 0.44,
}
"""Coefficients of an AMD EPYC of the fifth generation (vectors of 16 float32 in one piece, 1 MB of L2 per core).

Fitted to schedules of suite apps, timed on one core (gcc 12, a virtual machine), except: ``sums``, ``chosen_lines`` and
``streams`` are set by hand, for the order of these schedules; ``memory_bytes`` and ``memory_writes`` are fitted to
loops over arrays beyond the caches; ``gathered_accesses`` is fitted to random pipelines.
"""

AMX_RATES: Mapping[str, float] = {
    "vector_arithmetic": 0.097e-9,
    "vector_accesses": 0.18e-9,
    "sums": 0.046e-9,
    "divisions": 0.75e-9,
    "strided_accesses": 0.063e-9,
    "gathered_accesses": 0.27e-9,
    "scalar": 0.059e-9,
    "ends": 0.058e-9,
    "scattered_accesses": 0.084e-9,
    "stalls": 0.1e-9,
    "calls": 3.8e-9,
    "remainders": 0.16e-9,
    "scalar_remainders": 0.63e-9,
    "rows": 0.68e-9,
    "blocks": 4.1e-9,
    "core_bytes": 0.0075e-9,
    "buffer_bytes": 0.01e-9,
    "cache_bytes": 0.071e-9,
    "memory_bytes": 0.058e-9,
    "memory_writes": 0.02e-9,
    "missed_accesses": 0.11e-9,
    "streams": 3.8e-9,
    "chosen_lines": 0.076e-9,
    "kernels": 5300e-9,
    "forks": 1000e-9,
    "steps": 0.81,
}
"""Coefficients of an Intel Xeon with AMX (vectors of 16 float32, 2 MB of L2 per core).

Fitted to schedules of random pipelines and suite apps, timed on one core (gcc 12, a virtual machine).
"""

RATES: Mapping[str, Mapping[str, float]] = {
    "AuthenticAMD 25 avx512": ZEN4_RATES,
    "AuthenticAMD 26": ZEN5_RATES,
    "GenuineIntel 6 amx": AMX_RATES,
}
"""Coefficients by kind of processor, see `autosched.host.Host.processor`."""


MICROBENCHMARK_FACTORS: Mapping[str, tuple[float, float]] = {"AuthenticAMD 26": (0.89, 1.66)}
"""Median of measured over predicted times of the microbenchmarks (`autosched.search.calibration.microbenchmarks`) with
one thread, and with several, on the machine where a processor's coefficients predict random pipelines without a bias.

Measured on a virtual machine with two cores.
"""


def rates_of(processor: str) -> Mapping[str, float]:
    """Return the coefficients of a processor; by default `CPU_RATES`."""
    return RATES.get(processor, CPU_RATES)
