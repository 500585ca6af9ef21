"""The benchmark suite: applications from the papers on GPU scheduling of array pipelines."""

from __future__ import annotations

from autosched.apps.app import App
from autosched.apps.registry import get_app, load_apps

__all__ = ["App", "get_app", "load_apps"]
