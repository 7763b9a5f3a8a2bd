"""Measure what each individual does to a query by really leaving them out: the paper's own way (section 4), slow.

Takes a dataset and SQL, or a plan and an engine; gives a Risk, or Contributions. For timing, and for the tests, which
compare the closed forms with it.
"""

from dosimeter_paper.recompute.run import recompute_contributions, recompute_risk

__all__ = ["recompute_contributions", "recompute_risk"]
