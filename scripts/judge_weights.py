"""Compare a file of weights and the analytical model with labels, of the same source as in training or of another.

    python scripts/judge_weights.py WEIGHTS.safetensors LABELS.parquet [--target h200] [--cache out/features]

See `training.judgement`.
"""

from __future__ import annotations

import sys

from training.judgement import main

if __name__ == "__main__":
    sys.exit(main())
