"""Random training pipelines of the stages that occur in imaging and learning programs."""

from __future__ import annotations

from autosched.random_pipelines.describe import Description, describe
from autosched.random_pipelines.generate import RandomPipeline, distinct_pipelines, family_of_seed, random_pipeline
from autosched.random_pipelines.settings import RandomPipelineSettings

__all__ = [
    "Description",
    "RandomPipeline",
    "RandomPipelineSettings",
    "describe",
    "distinct_pipelines",
    "family_of_seed",
    "random_pipeline",
]
