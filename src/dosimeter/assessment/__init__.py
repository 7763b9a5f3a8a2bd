"""One query looked at from all sides: everybody's exposure, and all that is derived from it. Private to the controller.

risk.py       Risk: numbers, and arithmetic on them
reading.py    DataReader: what goes back to the data; the only module here that holds an engine
"""

from dosimeter.assessment.data_reader import DataReader
from dosimeter.assessment.risk import Risk, study_as_plan

__all__ = ["DataReader", "Risk", "study_as_plan"]
