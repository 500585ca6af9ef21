"""Random programs of the language, under random and searched schedules, judged by all witnesses.

A program is Python text, so that one that fails is shrunk by rewriting its syntax tree and printed as a script.
"""
