"""Everybody's exposure to one query, and all that is derived from it. Private to the controller.

risk.py         Risk: numbers, and arithmetic on them
people.py       who is most exposed, and how groups of people compare
candidates.py   every ε in one pass
worlds.py       what may be released with the most exposed person and without
choosing.py     the largest ε that meets a preference: every Choice is made here
"""

from dosimeter.assessment.choosing import advise, choose
from dosimeter.assessment.risk import Risk
