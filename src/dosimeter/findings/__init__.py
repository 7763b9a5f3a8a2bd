"""What is worth saying about a query at an ε: found once, weighed once, worded once. Private to the controller.

Takes a Risk, the Choice that a preference made, and what the account says; gives findings. A finding is a value with
numbers and a weight. ``sentences`` has one row per kind of finding; notes, warnings, summary, confirmation and JSON are
filters of one list, and the verdict is a function of it.
"""

from dosimeter.findings.choice import Choice
from dosimeter.findings.deciding import Proposal, find_enough, find_for_proposal
from dosimeter.findings.filters import CAUTIONS, GIVEN, NEXT, STATES, pick
from dosimeter.findings.finding import Finding, Weight
from dosimeter.findings.looking import (
    count_exposed,
    find_absolute,
    find_accuracy,
    find_accuracy_notes,
    find_aimed,
    find_at,
    find_empty_filters,
    find_few,
    find_in_choice,
    find_notes,
    find_undecided,
    find_unmet,
    find_unstated,
    find_untold,
    find_worlds,
)
from dosimeter.findings.on_account import (
    AccountRefuses,
    AnswersLeft,
    Spends,
    TakesAllLeft,
    TestCosts,
    write_reading,
)
from dosimeter.findings.on_answer import Finds, MetButNotGranted, NotAsExactAsAsked
from dosimeter.findings.on_method import Remark
from dosimeter.findings.on_people import FEW, BeyondStandard, FailsPreference, LooserThanOwn
from dosimeter.findings.sentences import word, word_all
from dosimeter.findings.starting import Start, find_start, pick_start
from dosimeter.findings.telling import tell
from dosimeter.findings.verdict import Summary, Verdict, summarize
from dosimeter.findings.words_on_answer import round_up
