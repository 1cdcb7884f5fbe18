"""Random apps over random rows, cut at random: live tables must equal the batch answer.

    python -m tests.fuzz --cases 100 --seed 1         a campaign
    python -m tests.fuzz --cases 1 --seed 1234        one case again

A case is data (`case.Case`), made from its seed by `apps` and `rows`, judged by `judge`, and made smaller by `shrink`.
"""
