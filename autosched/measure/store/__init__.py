"""Storage of measurements: the results database and label files.

Begin with `database`; `schema` names the columns of both.
"""
