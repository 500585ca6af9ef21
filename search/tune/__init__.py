"""The modes of scheduling: one-shot, top-k, and autotuning.

Begin with `one_shot`; `autotune` is the tuning loop.
"""
