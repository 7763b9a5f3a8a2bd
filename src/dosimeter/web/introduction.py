"""What a new controller reads first: why noise, what ε does, who is exposed, and what to decide by. Plain values.

``docs/guide/introduction.md`` says the same, word for word; a test keeps them together.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its paragraphs."""

    heading: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question to check oneself with, and its answer."""

    words: str
    answer: str


TITLE = "Ten minutes about ε"
SECTIONS = (
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
            "Where each person counts once, 95 of 100 counts are off by at most 3 at ε = 1, and by at most 30 at ε = "
            "0.1, however many people are counted. Where up to three rows of each person count, it is three times as "
            "much. That is little for a town and too much for a ward: a coarser question gets a better answer at the "
            "same ε.",
            "There is no value of ε that is right for every case. Somebody has to choose it: you.",
        ),
    ),
    Section(
        "Not everybody is exposed alike",
        (
            "Some people leave a clearer trace in an answer than others: whoever is alone with a diagnosis, or has the "
            "largest bill. The relative disclosure risk (RDR) of a person compares them with the other people in the "
            "same table, for one question. 1 × is the average person, 1.5 × is one and a half times as exposed. It is "
            "not a probability, and it is computed from private data: only you see it.",
            "For each ε a bar runs from the least exposed person to the most exposed one. A short bar means that "
            "everybody is exposed about alike, a long bar that some are exposed much more than others. Smaller ε makes "
            "bars shorter.",
        ),
    ),
    Section(
        "Alike is not safe",
        (
            "A short bar says that people are exposed alike, and not how much. So look at the absolute sentences, too: "
            "for the most exposed person, how private the answer is; of 100 guesses whether they are in the table, how "
            "many more are right than by tossing a coin; what a suspicion of 1 % becomes.",
            "At ε = 0.5 a suspicion of 1 % becomes at most 1.7 %, at ε = 1 at most 2.7 %, at ε = 10 more than 99 %: "
            "that is as good as publishing the exact number.",
        ),
    ),
    Section(
        "How to decide",
        (
            "Read what is asked and how many people it touches. Take the largest ε at which you could explain to the "
            "most exposed person why. Then look at the error: if the answer would be worthless at that ε, do not raise "
            "ε. Send the question back and ask for fewer groups, a longer period, or a larger area.",
            "Choose ε as you would have chosen it for another table of the same kind. An ε that was found by looking "
            "at these very people tells something about them.",
            "Every answer is charged to the account of the data, and what is spent does not come back. Ten answers at "
            "ε = 0.1 are together about as telling as one at ε = 1.",
        ),
    ),
)
QUESTIONS = (
    Question("How does differential privacy protect people?", "It adds random noise to the answer."),
    Question("What happens with a larger ε?", "Less noise is added: a better answer, and less protection."),
    Question(
        "Eleven people live on an island, and an analyst wants their diagnoses. At ε = 0.5 each count is off by up to "
        "6. What do you do?",
        "Send it back: no ε gives a useful answer and protects eleven people. Ask for the whole region, or for fewer "
        "groups.",
    ),
    Question(
        "Every candidate, up to ε = 10, meets your preference that people are exposed alike. Is ε = 10 fine?",
        "No. The preference decides nothing here. Decide by the absolute sentences and the error.",
    ),
)
