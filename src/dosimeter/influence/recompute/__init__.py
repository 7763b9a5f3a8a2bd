"""Leave out every record in turn and run the query again: slow, and a check on the formulas of ``rows`` and ``units``.

Takes a plan, or a study (SQL's own aggregates with a sensitivity given by hand); gives Contributions. For comparison
and study.
"""

from dosimeter.influence.recompute.run import recompute_contributions, recompute_study

__all__ = ["recompute_contributions", "recompute_study"]
