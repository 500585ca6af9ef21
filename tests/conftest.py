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


SAMPLED = {
    "codegen/test_split_table_lookups.py": 4, "lower/test_hybrid_tiles.py": 3, "lower/test_per_reduction_step.py": 4,
    "lower/test_private_producers.py": 4, "lower/test_register_windows.py": 3, "lower/test_row_scans.py": 4,
    "lower/test_sliding_window.py": 3, "lower/test_warp_reduction.py": 6, "lower/test_warp_tiles.py": 3,
    "measure/simulated/test_linear_threads.py": 2, "random_pipelines/test_families.py": 2,
    "regression/test_empty_arrays.py": 2, "regression/test_integer_widths.py": 4,
    "runtime/test_emulator_vectors.py": 3, "runtime/test_nvrtc_batch.py": 3, "search/forma/test_strategy.py": 4,
    "search/sioutas/test_strategy.py": 4, "search/test_beam.py": 4, "search/test_effort.py": 3,
    "search/test_large_neighbourhood.py": 3, "search/test_phases.py": 3, "search/test_row_kernels.py": 3,
    "search/test_unroll_and_jam_savings.py": 3, "test_cli_apps.py": 6, "test_extents.py": 3,
    "test_far_coordinates.py": 3, "test_suite_schedules.py": 3,
}  # fmt: skip
"""Files whose tests have many cases that differ in an element type, a size or an app: of n cases, all but the first are
long runs."""
LEAST_CASES = 4
"""Cases of a test from which on some are long runs."""
STRIDES = ((16, 8), (12, 6), (8, 4), (LEAST_CASES, 2))
"""For numbers of cases of a test in other files: of how many all but the first are long runs."""
WHOLE = (
    "codegen/test_jam_gathers.py",
    "test_import_hygiene.py", "test_names.py", "test_packaging.py", "test_readme.py", "test_reference_pages.py",
    "torch_backend/test_backend.py", "torch_backend/test_operators.py",
)  # fmt: skip
"""Files without samples: their cases are files of the repository, or differ in kind."""
FIRST = ("test_readme.py", "torch_backend/test_operators.py")
"""Files with tests of a minute: begun last, one process would run them while the others have none."""


def _stride(cases: int, of_file: int) -> int:
    """Return of how many cases of a test one is run."""
    if of_file > 1:
        return 1 if cases < LEAST_CASES else of_file * (2 if cases >= LEAST_CASES * of_file else 1)
    return next((every for least, every in STRIDES if cases >= least), 1)


def _name_of(path: Path) -> str:
    return Path(os.path.relpath(path, Path(__file__).parent)).as_posix()


def _mark_sampled_cases(items: list[pytest.Item]) -> None:
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            cases.setdefault((item.path, item.originalname), []).append(item)
    for (path, _), group in cases.items():
        name = _name_of(path)
        if name not in WHOLE:
            every = _stride(len(group), SAMPLED.get(name, 1))
            for k, item in enumerate(group):
                if k % every:
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
    _mark_sampled_cases(items)
    items.sort(key=lambda item: _name_of(item.path) not in FIRST)
    if "fuzz" in (config.option.markexpr or ""):
        return
    skip = pytest.mark.skip(reason="a long run: make fuzz")
    for item in items:
        if item.get_closest_marker("fuzz"):
            item.add_marker(skip)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and (reason := _why_no_gpu()):
        pytest.skip(reason)
