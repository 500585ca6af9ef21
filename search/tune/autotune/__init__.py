"""The autotuning loop: batches of candidates, their times, and retraining of the cost model.

Begin with `run` and `loop`.
"""
