"""Plans of tuning: changes of a schedule level by level, chosen by bottlenecks (Artemis, sections V and VII).

Begin with `artemis_plan`.
"""
