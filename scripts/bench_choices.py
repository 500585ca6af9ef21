"""Ablation of one feature of the search: suite apps searched without and with it.

See `experiments.search_feature_ablation`.
"""

from __future__ import annotations

from experiments.search_feature_ablation import main

if __name__ == "__main__":
    main()
