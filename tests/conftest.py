"""Environment and options of all tests.

All processes of a run share one cache of compiled kernels, which is removed at the end. `AUTOSCHED_CACHE_DIR` names a
permanent one instead. Tests marked `gpu` are skipped, with the reason, where no CUDA device can be used; tests marked
`fuzz` unless `-m` selects them.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from autosched.errors import InputError
from autosched.target import Target

CACHE = "AUTOSCHED_CACHE_DIR"
SPARING = {
    "AUTOSCHED_COMPILE_JOBS": "1",  # several tests run at a time: more compilers only take longer to start
    "AUTOSCHED_HOST_TIMING": "0",  # the same seed gives the same schedule and prediction on every machine
    "AUTOSCHED_WORKERS": "1",
    "OMP_WAIT_POLICY": "passive",  # threads that wait for one another leave the cores to others
    "OPENBLAS_NUM_THREADS": "1",
    # PyTorch's own kernels of a graph need not be fast. Vector code would need compilations to test the processor.
    "TORCHINDUCTOR_VEC_ISA_OK": "0",
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
}
"""Environment variables of the tests, unless they are set otherwise."""

for _name, _value in SPARING.items():
    os.environ.setdefault(_name, _value)

SCRIPTS = str(Path(__file__).parents[1] / "scripts")
if SCRIPTS not in sys.path:
    sys.path.append(SCRIPTS)  # last, so that no package of scripts takes the name of a library

settings.register_profile("autosched", deadline=None)  # a machine may be busy
settings.load_profile("autosched")


HALVED = frozenset({
    "lower/test_hybrid_tiles.py", "lower/test_per_reduction_step.py", "lower/test_private_producers.py",
    "lower/test_row_scans.py", "lower/test_sliding_window.py", "lower/test_warp_reduction.py",
    "random_pipelines/test_families.py", "regression/test_empty_arrays.py", "regression/test_integer_widths.py",
    "runtime/test_emulator_vectors.py", "search/forma/test_strategy.py", "search/sioutas/test_strategy.py",
    "search/test_large_neighbourhood.py", "search/test_row_kernels.py", "test_extents.py",
})  # fmt: skip
"""Files whose tests have many cases that differ in an element type, a size or an app; every second is a long run."""
LEAST_CASES = 6
"""Cases of a test in these files from which on every second is a long run."""


def _mark_every_second_case(items: list[pytest.Item]) -> None:
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            cases.setdefault((item.path, item.originalname), []).append(item)
    for (path, _), group in cases.items():
        if path.relative_to(Path(__file__).parent).as_posix() in HALVED and len(group) >= LEAST_CASES:
            for item in group[1::2]:
                item.add_marker(pytest.mark.fuzz)


@functools.cache
def _why_no_gpu() -> str:
    try:
        Target.detect()
    except InputError as error:
        return str(error)
    return ""


def pytest_configure(config: pytest.Config) -> None:
    if CACHE in os.environ:  # named, or that of the process that distributes the tests
        return
    directory = tempfile.TemporaryDirectory(prefix="autosched-tests-", ignore_cleanup_errors=True)
    os.environ[CACHE] = directory.name
    config.add_cleanup(directory.cleanup)
    config.add_cleanup(lambda: os.environ.pop(CACHE))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _mark_every_second_case(items)
    if "fuzz" in (config.option.markexpr or ""):
        return
    skip = pytest.mark.skip(reason="a long run: make fuzz")
    for item in items:
        if item.get_closest_marker("fuzz"):
            item.add_marker(skip)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and (reason := _why_no_gpu()):
        pytest.skip(reason)
