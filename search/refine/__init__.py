"""Refinement of found schedules by large-neighbourhood search and by changes that beam search does not offer.

Begin with `large_neighbourhood`.
"""
