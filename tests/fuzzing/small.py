"""A small program, and check functions of worker processes."""

from __future__ import annotations

import os

from fuzzing.check import RIGHT, WRONG, Failure, Outcome
from fuzzing.program import Program
from fuzzing.worker_pool import Task

TEXT = """\
x = Var("x")
a0 = Input("a0", "float32", 1)
f0 = Func("f0")
f0[x] = a0[x] + x // 3
f1 = Func("f1")
f1[x] = f0[x] * 2.5 + 7
pipeline = Pipeline([f0.over(x=(0, 9)), f1.over(x=(0, 12))])
shapes = {"a0": (17,), "a9": (3,)}
params = {}
"""


def small(number: int = 0, text: str = TEXT) -> Program:
    """Return the program with a number."""
    return Program(text, number)


def clumsy_judge(task: Task) -> Outcome:
    """Die, hang or fail, depending on the text of the program."""
    if "die" in task.program.text:
        os._exit(3)
    if "hang" in task.program.text:
        while True:
            pass
    if "wrong" in task.program.text:
        return Outcome(WRONG, failures=(Failure(WRONG, "all of it"),))
    return Outcome(RIGHT)
