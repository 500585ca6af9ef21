"""New names of renamed documented modules; see `autosched.deprecation`."""

from __future__ import annotations

from collections.abc import Mapping

MODULES: Mapping[str, str] = {
    "autosched.analysis.bound": "autosched.analysis.bound_pipeline",
    "autosched.analysis.joining": "autosched.analysis.rewrites.horizontal_fusion",
    "autosched.analysis.splitting": "autosched.analysis.rewrites.rfactor",
    "autosched.measure.database": "autosched.measure.store.database",
    "autosched.model.learned": "autosched.model.predict.learned",
    "autosched.runtime.compiled": "autosched.runtime.call.compiled",
    "autosched.runtime.executable": "autosched.runtime.backends.executable",
    "autosched.schedule.sample": "autosched.schedule.sampling.random_schedule",
    "autosched.schedule.serialise": "autosched.schedule.io.serialise",
    "autosched.schedule.text": "autosched.schedule.io.text",
    "autosched.schedule.validate": "autosched.schedule.legality.validate",
    "autosched.search.analytical": "autosched.search.cost.gpu_analytical",
    "autosched.search.modes.models": "autosched.search.tune.cost_models",
    "autosched.search.modes.samples": "autosched.search.tune.greedy_samples",
    "autosched.search.modes.trials": "autosched.search.tune.top_k",
    "autosched.search.modes.tuning_settings": "autosched.search.tune.autotune.settings",
    "autosched.search.ranked": "autosched.search.results",
    "autosched.search.roots": "autosched.search.strategies.compute_root",
    "autosched.search.strategy": "autosched.search.strategies.protocol",
    "autosched.torch_custom_op": "autosched.torch.custom_op",
    "autosched.torch_sources": "autosched.torch.operator_sources",
}
"""New names of modules by their old names."""

NAMES: Mapping[str, Mapping[str, str]] = {
    "autosched.analysis.bound": {"Split": "RFactor", "Join": "HorizontalFusion"},
    "autosched.analysis.joining": {"with_joins": "fuse_outputs"},
    "autosched.analysis.splitting": {"with_splits": "apply_rfactors"},
    "autosched.schedule.validate": {"reasons": "violations"},
    "autosched.search.modes.samples": {"Sampler": "GreedySampler"},
    "autosched.search.ranked": {"Ranked": "RankedSchedule", "Found": "SearchResult"},
}
"""New names in these modules by their old names."""
