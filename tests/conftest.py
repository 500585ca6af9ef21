"""Tests marked `gpu` are skipped, with the reason, where no CUDA device can be used."""

from __future__ import annotations

import functools

import pytest
from hypothesis import settings

from autosched.errors import InputError
from autosched.target import Target

settings.register_profile("autosched", deadline=None)  # a machine may be busy
settings.load_profile("autosched")


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
