"""Every word of the study that a participant reads. Plain values; nothing is computed here.

The paper does not print its texts, so these are our own, after its description (section 6.1). Answers given to other
words are answers to another question: a change of these texts, or of the templates that frame them, needs a new
``VERSION``, which is stored with every answer. Everything before the marked line at the end is read by everybody,
the control group too, and so never mentions what only the treatment groups see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VERSION = "1"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its paragraphs."""

    heading: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its options, by their letters. ``right``: the letter of the right one."""

    words: str
    options: Mapping[str, str]
    right: str


TITLE = "A study on choosing ε"
RECONSTRUCTION = (
    "This is a reconstruction of a published user study. Its texts were written anew; they are not those of the "
    "original."
)
ETHICS = "A study with people needs the approval of an ethics board before anybody is invited."
TRY_OUT = "Try-out: no ethics approval has been named. Do not invite participants."

CONSENT = (
    Section(
        "What this is about",
        (
            "We study how people choose a setting that decides how strongly a statistic about people is protected. "
            "You need no knowledge of the method; a short tutorial explains it.",
        ),
    ),
    Section(
        "What you will do",
        (
            "You answer one question about what you know already, read the tutorial, and answer four questions about "
            "it. These four questions can be answered once only, and only those who answer all of them correctly go "
            "on. Then you make two choices. Everything takes about fifteen minutes.",
            "Some pages exist in several versions. Which one you see is drawn at random.",
        ),
    ),
    Section(
        "Your data",
        (
            "We keep your answers, the day on which you began, and a random number. We do not ask for your name or "
            "contact, and we do not store your address on the network, your location or what browser you use.",
            "A cookie lets you come back to where you stopped. The link between it and your answers is deleted when "
            "you finish; from then on nobody can tell which answers are yours.",
        ),
    ),
    Section(
        "Taking part is voluntary",
        (
            "You may stop at any time without giving a reason. Until you finish you can also delete your answers, "
            "with the button at the bottom of every page.",
            "If there is a compensation, it is stated where you were invited.",
        ),
    ),
)
CONSENT_STATEMENT = "I have read this, I am at least 18 years old, and I agree to take part."
CONSENT_MISSING = "Please tick the box if you agree. If you do not agree, simply close this page."
CONSENT_BUTTON = "Take part"

KNOWLEDGE_TITLE = "Before we start"
KNOWLEDGE_QUESTION = "Do you know about differential privacy?"
KNOWLEDGE_OPTIONS: Mapping[str, str] = {
    "no": "No, I do not know anything about it.",
    "yes": "Yes, I know about it.",
}

TUTORIAL_TITLE = "A short tutorial"
TUTORIAL = (
    Section(
        "Statistics can give people away",
        (
            "An organisation holds data about people and publishes statistics from it: how many earn more than a "
            "certain amount, how many have a certain illness. An exact number can give away more than it should. "
            "Somebody who knows everybody in the data but one person can work out that person's entry from it.",
        ),
    ),
    Section(
        "Differential privacy adds random noise",
        (
            "Differential privacy protects the people in the data by adding random noise to the answer before it is "
            "published. If the raw answer is 20, the published answer may be 18, or 23. Because of the noise the "
            "published answer would look much the same whether or not any one person is in the data.",
        ),
    ),
    Section(
        "ε decides how much noise",
        (
            "The amount of noise is set by a number called ε (epsilon).",
            "A smaller ε means that more noise is added: the people in the data are protected better, and the answer "
            "is less accurate. A larger ε means that less noise is added: the answer is more accurate, and the people "
            "in the data are protected less.",
            "There is no value of ε that is right for every case. Somebody has to choose it.",
        ),
    ),
)
TUTORIAL_BUTTON = "I have read it; go to the questions"
TUTORIAL_NOTE = "You cannot come back to this page from the questions."

QUIZ_TITLE = "Four questions about the tutorial"
QUIZ_NOTE = "You can send your answers once only."
QUIZ_BUTTON = "Send my answers"
QUIZ = (
    Question(
        "How does differential privacy protect people?",
        {
            "a": "It removes their names from the data.",
            "b": "It adds random noise to the answer.",
            "c": "It encrypts the answer.",
            "d": "It asks everybody for permission.",
        },
        "b",
    ),
    Question(
        "What happens with a larger ε?",
        {
            "a": "Less noise is added.",
            "b": "More noise is added.",
            "c": "The amount of noise stays the same.",
        },
        "a",
    ),
    Question(
        "Which of these protects the people in the data better?",
        {"a": "ε = 5", "b": "Both the same", "c": "ε = 0.5"},
        "c",
    ),
    Question(
        "The same query is answered once with ε = 1 and once with ε = 4. Which answer is likely to be closer to the "
        "raw answer?",
        {"a": "The one with ε = 1", "b": "The one with ε = 4", "c": "Neither: both are equally close."},
        "b",
    ),
)
PASS_MARK = 4

BRIEFING_TITLE = "Your task"
BRIEFING = (
    "Imagine that you are responsible for the data set below. It describes {rows} people, one per row. Other people "
    "ask queries about it, and they get answers to which noise was added, as the tutorial explained.",
    "Two queries wait for you. For each of them you choose ε, between {smallest} and {largest}.",
)
GOAL = (
    "Choose ε so that the privacy of the people in the data is protected while the answers are as accurate as possible."
)
SAMPLE_CAPTION = (
    "The data set: {rows} people, a sample of the Adult data of the UCI repository, with the columns that matter here."
)
BRIEFING_BUTTON = "Go to the first query"

QUERY_WORDS: Mapping[str, str] = {
    "q1": "The number of people with income greater than 50K who are less than 40 years old.",
    "q2": "The number of people who have a Master's degree or above and have income ≤ 50K, grouped by each race.",
}
TASK_TITLE = "Query {place} of 2"
GOAL_HEADING = "Your goal"
ACCURACY_HEADING = "How accurate the answer would be"
ACCURACY = (
    "Without noise the answer is the raw output in the first row. With noise it varies. For each ε the table shows the "
    "range in which each published number lies 19 times out of 20. Noise can make a number negative."
)
RAW_ROW = "raw output"
CHOICE_HEADING = "Your choice"
CHOICE_LABEL = "Which ε do you choose for this query?"
NOT_CHOSEN = "Nothing chosen yet. Click on the scale, or use the arrow keys."
CHOICE_MISSING = "Please choose a value of ε first."
SELECT_PROMPT = "choose ε"
TASK_BUTTON = "Confirm this ε"
TASK_NOTE = "A choice that is confirmed cannot be changed."

ANSWER_MISSING = "Please choose one of the options."
QUIZ_MISSING = "Please answer all four questions. Nothing has been sent yet."
CONTINUE = "Continue"
WITHDRAW = "Stop and delete my answers"

DONE_TITLE = "Thank you"
DONE = (
    "Your answers are stored, and the link between them and this browser is deleted. You can close this page.",
    "Please do not tell others what you saw: they might take part as well.",
)
FAILED_TITLE = "Thank you; this is the end"
FAILED = (
    "Not all of your answers to the four questions were correct, and so the study ends here for you. The questions can "
    "be answered once only. Thank you for your time.",
)
WITHDRAWN_TITLE = "Your answers are deleted"
WITHDRAWN = ("Nothing that you entered has been kept. You can close this page.",)
OVER_TITLE = "You have taken part already"
OVER = ("This browser has finished the study, or its answers were deleted. One can take part once only.",)


# ---------------------------------------------------------------- read by the treatment groups only

RDR_HEADING = "How exposed the people in the data would be"
RDR_EXPLANATION = (
    "The answer does not expose everybody alike: some people leave a clearer trace in it than others. The relative "
    "disclosure risk (RDR) of a person compares them with the other people in this data set. Here it is shown as a "
    "multiple of the average: 1 × is the average person, 1.5 × is one and a half times as exposed as the average "
    "person. It is not a probability.",
)
RANGE_READING = (
    "For each ε the bar runs from the RDR of the least exposed person to the RDR of the most exposed person. A "
    "short bar means that everybody is exposed about alike, a long bar that some are exposed much more than others."
)
RANGE_TITLE = "Range of RDRs at each ε"
RANGE_COLUMNS = ("ε", "least exposed", "most exposed")
HISTOGRAM_READING = (
    "For each ε there is one histogram. It shows how many people have which RDR: the further right a bar stands, the "
    "more exposed are the people in it. The scale is the same in all of them."
)
HISTOGRAM_TITLE = "ε = {epsilon}"
HISTOGRAM_COLUMNS = ("ε", "people at × the average person")
TABLE_SUMMARY = "The same as a table"

FOLLOW_UP_TITLE = "One last question"
FOLLOW_UP_QUESTION = "Did you use the relative disclosure risks (RDRs) of the people in the data when you chose ε?"
FOLLOW_UP_OPTIONS: Mapping[str, str] = {"yes": "Yes", "no": "No"}
