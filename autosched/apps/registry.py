"""The suite's applications by name."""

from __future__ import annotations

from autosched.apps import (
    blur,
    blur_forma,
    harris,
    harris_gray,
    sgemm,
    stencil_chain,
    unsharp,
    unsharp_polymage,
)
from autosched.apps.app import App
from autosched.apps.names import did_you_mean
from autosched.errors import InputError

_APPS = (
    blur.APP,
    blur_forma.APP,
    unsharp.APP,
    unsharp_polymage.APP,
    harris.APP,
    harris_gray.APP,
    stencil_chain.APP,
    sgemm.APP,
)


def load_apps() -> dict[str, App]:
    """Return every application of the suite by name, in the order of the suite."""
    return {app.name: app for app in _APPS}


def get_app(name: str) -> App:
    """Return the application of that name.

    Raises:
        InputError: If there is none; the message names the nearest one.
    """
    apps = load_apps()
    if name not in apps:
        raise InputError(f"no app {name!r}: {did_you_mean(name, apps)}")
    return apps[name]
