"""Tests marked `gpu` are skipped, with the reason, where no CUDA device can be used."""

from __future__ import annotations

import functools

import pytest

from autosched.errors import InputError
from autosched.target import Target


@functools.cache
def _why_no_gpu() -> str:
    try:
        Target.detect()
    except InputError as error:
        return str(error)
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and (reason := _why_no_gpu()):
        pytest.skip(reason)
