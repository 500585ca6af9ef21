"""How long each kind of work takes that the CPU's timing model counts, by processor.

`scripts/fit_cpu_model.py` says how well they order schedules on another machine, and fits rates for it.
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
    "forks": 32000e-9,
    "steps": 1.0,
}
"""Seconds of one core for one of each thing that is counted.

They stand for processors that were not measured. Of an AMD EPYC of the fourth generation (gcc 12, a virtual machine):
fitted to kernels of random pipelines that were timed on two busy cores, then rounded and scaled so that they agree with
those of suite apps on a core of their own, before what neighbouring blocks share was worked out. To wake a sleeping
thread takes long in virtual machines (``forks``).
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
    "forks": 32000e-9,
    "steps": 0.89,
}
"""The same of an AMD EPYC of the fourth generation (vectors of 16 float32 in two halves, 1 MB of L2 a core, gcc 12, a
virtual machine): fitted to 6,924 schedules of 463 random pipelines and 602 of 16 suite apps, timed in turns on one
core, the other one busy. Rates of one half of the pipelines order the schedules of the other half better than
`CPU_RATES` do (rank correlation 0.719 and 0.697 of random pipelines, 0.70 and 0.62 of apps)."""

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
    "forks": 32000e-9,
    "steps": 0.44,
}
"""The same of an AMD EPYC of the fifth generation (vectors of 16 float32 in one piece, 1 MB of L2 a core, gcc 12, a
virtual machine): fitted to 1,262 schedules of 27 suite apps, each kernel timed on one core, the other one busy. Chosen
by hand were ``sums``, ``chosen_lines`` and ``streams``, which order these schedules a little better; ``memory_bytes``
and ``memory_writes`` are what loops over 64 to 512 MB take beyond those over 8 MB: 0.029 and 0.011 ns for a byte
that is read, 0.037 and 0.015 for one that is written; ``gathered_accesses`` is what orders 6,000 schedules of random
pipelines best. These would have larger ``rows`` (0.3 ns) and ``scattered_accesses`` (0.12 ns) and smaller ``sums``
(0.2 ns), with which searches of suite apps find slower schedules, camera_pipe's and standardize's most."""

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
    "forks": 32000e-9,
    "steps": 0.81,
}
"""The same of an Intel Xeon with AMX (vectors of 16 float32, 2 MB of L2 a core, gcc 12, a virtual machine): fitted to
1,338 schedules of 90 random pipelines and 392 of 16 suite apps, timed on one core, the other one busy. Those fitted to
the random pipelines alone order the apps' schedules almost as well (rank correlation 0.624, with these 0.639, with
`CPU_RATES` 0.499)."""

RATES: Mapping[str, Mapping[str, float]] = {
    "AuthenticAMD 25 avx512": ZEN4_RATES,
    "AuthenticAMD 26": ZEN5_RATES,
    "GenuineIntel 6 amx": AMX_RATES,
}
"""Rates by kind of processor, as `autosched.host.Host.processor` has them."""


def rates_of(processor: str) -> Mapping[str, float]:
    """Return the rates of a processor; of one that was not measured, `CPU_RATES`."""
    return RATES.get(processor, CPU_RATES)
