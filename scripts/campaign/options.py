"""Options of a campaign, passed to each step's process as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TARGETS = ("cuda", "cpu", "emulator", "simulated")
"""Backends: the GPU; C on this processor; generated CUDA text, emulated on this processor; simulated times only."""

TUNED = (
    "harris", "unsharp", "blur", "local_laplacian", "interpolate", "bilateral_grid", "stencil_chain", "iir_blur",
    "max_filter", "nl_means",
)  # fmt: skip
"""Apps that are tuned: ten of the paper, those with 1,600 samples first."""


@dataclass(frozen=True)
class Options:
    """Settings of a campaign.

    Attributes:
        out: Directory of the results.
        work: Directory of temporary files: logs, caches, databases, unpacked peers.
        target: One of `TARGETS`.
        device: Name of the device to schedule for; empty for that of this machine.
        apps: Apps of the suite; empty for all.
        sizes: Sizes for the suite check, of ``small``, ``odd`` and ``paper``.
        strategies: Scheduling strategies.
        ranked: Number of best-ranked schedules of the beam search that are timed.
        search_seconds: Time budget of each search.
        weights: File of the learned model for the strategy ``learned``; empty for none.
        samples: Number of samples for `collect`.
        pipelines: Most random pipelines of `collect`.
        first: Seed of the first random pipeline.
        schedules: Number of schedules of each kind per pipeline
            (`autosched.search.datasets.candidate_mix.CandidateMix`).
        labels: Label files whose schedules `collect` measures before random ones.
        pipeline_settings: Settings of all random pipelines that differ from the default, by name; empty for the groups
            of `campaign.pipelines`.
        epochs: Most epochs of training.
        hold_out: Apps held out from training, one at a time; empty for all measured apps.
        peers: Directory of competing programs; empty for none.
        tests: Files of tests; empty for all with a test that needs a GPU.
        profiled: Apps that are profiled.
        processes: Processes that compile or search.
        commit: The commit, if it was given.
        code_mib: Largest size of the code that `compile` packs.
        tune_apps: Apps of the step `tune`, in order.
        tune_seconds: Time for tuning an app in one call.
        tune_iterations: Batches of an app, over all calls.
        tune_samples: Schedules of a batch.
        torch_arguments: Further arguments of ``scripts/bench_kornia.py``.
        wheels: Directory of wheels of packages that the machine lacks; empty for none.
    """

    out: str
    work: str
    target: str = "cuda"
    device: str = ""
    apps: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ("small", "odd", "paper")
    strategies: tuple[str, ...] = ("roots", "sioutas", "one-shot", "top5")
    ranked: int = 5
    search_seconds: float = 30.0
    weights: str = ""
    samples: int = 12_000
    pipelines: int = 400
    first: int = 0
    schedules: dict[str, int] = field(
        default_factory=lambda: {
            "beam": 2,
            "greedy": 2,
            "states": 6,
            "legal": 3,
            "mutations": 18,
            "steps": 6,
            "rewrites": 4,
            "warps": 6,
        }
    )
    labels: tuple[str, ...] = ()
    pipeline_settings: dict[str, object] = field(default_factory=dict)
    epochs: int = 60
    hold_out: tuple[str, ...] = ()
    peers: str = ""
    tests: tuple[str, ...] = ()
    profiled: int = 5
    processes: int = 1
    commit: str = ""
    code_mib: float = 16.0
    tune_apps: tuple[str, ...] = TUNED
    tune_seconds: float = 60.0
    tune_iterations: int = 20
    tune_samples: int = 80
    wheels: str = ""
    torch_arguments: tuple[str, ...] = ()

    def text(self) -> str:
        """Return them as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Options:
        """Return the options of a text from `text`."""
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(text).items()}
        return cls(**values)

    @property
    def out_path(self) -> Path:
        """Directory of results."""
        return Path(self.out)

    @property
    def work_path(self) -> Path:
        """Directory of temporary files."""
        return Path(self.work)
