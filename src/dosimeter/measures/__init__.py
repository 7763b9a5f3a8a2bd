"""What a query measures: one noisy number per group each, with its sensitivity and its grid.

Takes an Argument, never a plan. Never sees data.
"""

from dosimeter.measures.measure import ADDITIVE, Argument, Measure, MeasureKind

__all__ = ["ADDITIVE", "Argument", "Measure", "MeasureKind"]
