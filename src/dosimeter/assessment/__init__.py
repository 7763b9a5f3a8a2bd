"""One query looked at from all sides: everybody's exposure, and all that is derived from it. Private to the controller.

risk.py       Risk: numbers, and arithmetic on them
accuracy.py   how far off each number is
advising.py   what to know before an ε is taken
finding.py    the largest ε that meets a preference
study.py      SQL that cannot be planned
reading.py    DataReader: what goes back to the data; the only module here that holds an engine
"""

from dosimeter.assessment.reading import DataReader
from dosimeter.assessment.risk import Risk
from dosimeter.assessment.study import study_as_plan

__all__ = ["DataReader", "Risk", "study_as_plan"]
