"""Schedules by hand for apps of the suite: baselines of benchmarks, and cases of tests.

Begin with `schedules`, whose table `HAND` lists them by app.
"""
