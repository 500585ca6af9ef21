"""What a campaign is asked to do; handed to each step's process as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TARGETS = ("cuda", "cpu", "emulator", "simulated")
"""What pipelines run on: the GPU; this processor, through C; the generated CUDA text on this processor; or nothing,
times being those of the simulated device."""


@dataclass(frozen=True)
class Options:
    """Settings of a campaign.

    Attributes:
        out: Directory of the few files that are worth keeping.
        work: Directory of everything else: logs, caches, databases, unpacked peers.
        target: One of `TARGETS`.
        device: Name of the device that schedules are made for; empty for that of this machine.
        apps: Apps of the suite; empty for all.
        sizes: Which of the sizes ``small``, ``odd`` and ``paper`` the suite is checked at.
        strategies: Ways of finding schedules.
        ranked: Schedules of the beam search that are timed: its best, and the next.
        search_seconds: Time budget of each search.
        weights: File of a learned model that the strategy ``learned`` searches with; empty for none.
        samples: Samples that `collect` is content with.
        pipelines: Random pipelines that it draws from at most.
        first: Seed of the first of them.
        schedules: How many schedules of each kind are measured of each
            (`autosched.search.datasets.candidate_mix.CandidateMix`).
        labels: Files of labels whose schedules `collect` measures before it draws any.
        pipeline_settings: What random pipelines differ from the usual in, by name.
        epochs: Passes of training at most.
        hold_out: Apps that a model is trained without, one after the other; empty for all that were measured.
        peers: Directory of programs to compare with; empty for none.
        tests: Files of tests; empty for all with a test that needs a GPU.
        profiled: Apps that are profiled.
        processes: Processes that compile or search.
        commit: The commit, if it was given.
    """

    out: str
    work: str
    target: str = "cuda"
    device: str = ""
    apps: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ("small", "odd", "paper")
    strategies: tuple[str, ...] = ("roots", "sioutas", "beam")
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
            "mutations": 20,
            "steps": 4,
            "views": 4,
        }
    )
    labels: tuple[str, ...] = ()
    pipeline_settings: dict[str, object] = field(default_factory=dict)
    epochs: int = 60
    hold_out: tuple[str, ...] = ()
    peers: str = ""
    tests: tuple[str, ...] = ()
    profiled: int = 3
    processes: int = 1
    commit: str = ""

    def text(self) -> str:
        """Return them as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Options:
        """Return the options of a text that `text` returned."""
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(text).items()}
        return cls(**values)

    @property
    def out_path(self) -> Path:
        """Directory of results."""
        return Path(self.out)

    @property
    def work_path(self) -> Path:
        """Directory of everything else."""
        return Path(self.work)
