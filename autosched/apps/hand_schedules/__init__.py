"""Schedules by hand for apps of the suite: baselines of benchmarks, and cases of tests.

`schedules` has those for processors, by app in `HAND`, and `image_pipelines` those for GPUs with one tile per block, by
app in `IMAGE_KERNELS`.
"""
