"""The paper's analysis of the study (section 6.1). Takes answers; gives counts, tests and sentences.

Only participants who passed the quiz and completed the study are analysed. Whether the groups chose other ε's is
tested as in the paper: Mann–Whitney, two-sided. That test compares where the answers lie, but the paper claims that
RDRs make them more *consistent*. So how far the answers spread is also tested, by Brown–Forsythe (Levene's test around
the medians). p-values are not adjusted for the number of comparisons. SciPy is imported when used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from dosimeter.errors import DataError
from dosimeter.json_values import JsonObject
from dosimeter.show import TextTable, format_epsilon, format_number
from dosimeter_paper.study.answers import CONTROL, EPSILONS, GROUPS, StudyAnswer
from dosimeter_paper.study.generate import QUERY_NAMES

KNOWLEDGE = {"all": "everybody", "no": "do not know differential privacy", "yes": "know differential privacy"}


# ---------------------------------------------------------------- two samples


@dataclass(frozen=True, slots=True)
class MannWhitney:
    """A Mann–Whitney test. ``u``: the number of pairs in which the first sample's answer is larger; a tie counts half.

    ``share``: ``u`` divided by the number of pairs. ``p``: the p-value. ``exact``: whether it is exact, and not by the
    normal distribution.
    """

    u: float
    share: float
    p: float
    exact: bool


@dataclass(frozen=True, slots=True)
class BrownForsythe:
    """A Brown–Forsythe test: a one-way analysis of variance of how far each answer is from its sample's median.

    ``f``: its F, with (1, n − 2) degrees of freedom. ``p``: the p-value.
    """

    f: float
    p: float


def compare_locations(first: Sequence[float], second: Sequence[float]) -> MannWhitney | None:
    """Compare two samples by a two-sided Mann–Whitney test; None if one of them has no answers.

    Exact if a sample has at most 8 answers and no two answers are equal; otherwise by the normal distribution with
    corrections for ties and continuity. If all answers are equal, the p-value is 1.
    """
    if not first or not second:
        return None
    pairs = len(first) * len(second)
    if len({*first, *second}) == 1:  # all equal: the normal distribution would have no width
        return MannWhitney(pairs / 2, 0.5, 1.0, exact=False)
    from scipy.stats import mannwhitneyu

    exact = min(len(first), len(second)) <= 8 and len({*first, *second}) == len(first) + len(second)
    found = mannwhitneyu(first, second, alternative="two-sided", method="exact" if exact else "asymptotic")
    return MannWhitney(float(found.statistic), float(found.statistic) / pairs, float(found.pvalue), exact)


def compare_spreads(first: Sequence[float], second: Sequence[float]) -> BrownForsythe | None:
    """Compare the spreads of two samples by a Brown–Forsythe test; None where it is not defined.

    It is not defined if a sample has fewer than two answers, or if in each sample all answers are equally far from its
    median.
    """
    if min(len(first), len(second)) < 2:
        return None
    distances = [np.abs(np.asarray(sample) - np.median(sample)) for sample in (first, second)]
    if all(np.ptp(part) == 0.0 for part in distances):
        return None
    from scipy.stats import levene

    found = levene(first, second, center="median")
    return BrownForsythe(float(found.statistic), float(found.pvalue))


# ---------------------------------------------------------------- the whole study


@dataclass(frozen=True, slots=True)
class Summary:
    """The ε's that one group chose for one query.

    ``knowledge``: whose answers these are: ``all``, or of the participants who said ``yes`` or ``no`` to prior
    knowledge. ``counts``: how often each ε was chosen. ``densest``: the two neighbouring ε's with the largest sum of
    counts, which is ``densest_n``.
    """

    query: str
    knowledge: str
    group: str
    n: int
    median: float | None
    variance: float | None
    counts: dict[str, int]
    densest: tuple[str, str]
    densest_n: int


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """Two groups compared on one query. ``knowledge``: whose answers, as in Summary. ``n``: the groups' sizes.

    ``location``, ``spread``: the tests; None where one is not defined.
    """

    query: str
    knowledge: str
    groups: tuple[str, str]
    n: tuple[int, int]
    location: MannWhitney | None
    spread: BrownForsythe | None


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that is reported about the study. Dictionaries are by group.

    ``answers``: of those who are analysed. ``first_query``: how many saw each query first. ``knowledge``: how many said
    yes and no to prior knowledge. ``used``: of each treatment group, how many said yes and no when asked whether they
    used the RDRs.
    """

    answers: tuple[StudyAnswer, ...]
    texts_versions: tuple[str, ...]
    recruited: int
    stopped_before_quiz: int
    failed_quiz: int
    stopped_after_quiz: int
    sizes: dict[str, int]
    first_query: dict[str, dict[str, int]]
    knowledge: dict[str, dict[str, int]]
    used: dict[str, dict[str, int]]
    summaries: tuple[Summary, ...]
    comparisons: tuple[GroupComparison, ...]

    def document(self) -> JsonObject:
        return {
            "texts_versions": list(self.texts_versions),
            "participants": {
                "recruited": self.recruited,
                "stopped_before_quiz": self.stopped_before_quiz,
                "failed_quiz": self.failed_quiz,
                "stopped_after_quiz": self.stopped_after_quiz,
                "analysed": len(self.answers),
            },
            "groups": [
                {
                    "group": group,
                    "n": n,
                    "first_query": self.first_query[group],
                    "prior_knowledge": self.knowledge[group],
                    "used_rdr": self.used.get(group),
                }
                for group, n in self.sizes.items()
            ],
            "chosen": [_describe_summary(summary) for summary in self.summaries],
            "comparisons": [_describe_comparison(comparison) for comparison in self.comparisons],
        }

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(_write_words(self))

    def size_table(self) -> TextTable:
        rows = [
            [group, str(n), *(str(self.knowledge[group][known]) for known in ("no", "yes")), *_used_cells(self, group)]
            for group, n in self.sizes.items()
        ]
        return {"columns": ["group", "analysed", "did not know DP", "knew DP", "used RDRs", "did not"], "rows": rows}

    def choice_table(self, knowledge: str = "all") -> TextTable:
        rows = [
            [
                summary.query,
                summary.group,
                str(summary.n),
                _number(summary.median),
                _number(summary.variance),
                f"{summary.densest_n} at {summary.densest[0]} or {summary.densest[1]}",
            ]
            for summary in self.summaries
            if summary.knowledge == knowledge and summary.n
        ]
        return {"columns": ["query", "group", "n", "median ε", "variance", "most chosen neighbours"], "rows": rows}

    def comparison_table(self, knowledge: str = "all") -> TextTable:
        rows = [
            [
                compared.query,
                " and ".join(compared.groups),
                " + ".join(map(str, compared.n)),
                _number(compared.location.u if compared.location else None),
                _p_value(compared.location.p if compared.location else None),
                _number(compared.spread.f if compared.spread else None),
                _p_value(compared.spread.p if compared.spread else None),
            ]
            for compared in self.comparisons
            if compared.knowledge == knowledge
        ]
        columns = ["query", "groups", "n", "Mann–Whitney U", "p", "Brown–Forsythe F", "p"]
        return {"columns": columns, "rows": rows}


def analyse_answers(answers: Sequence[StudyAnswer]) -> Analysis:
    """Leave out participants who failed the quiz or stopped; count, summarise and compare. Refuse if none is left."""
    kept = tuple(answer for answer in answers if answer.completed)
    if not kept:
        raise DataError("Nobody has passed the quiz and completed the study: there is nothing to analyse yet.")
    sizes = {group: n for group in GROUPS if (n := sum(answer.group == group for answer in kept))}
    before = sum(answer.passed is None for answer in answers)
    failed = sum(answer.passed is False for answer in answers)
    treated = [group for group in sizes if group != CONTROL]
    return Analysis(
        answers=kept,
        texts_versions=tuple(sorted({answer.texts_version for answer in kept})),
        recruited=len(answers),
        stopped_before_quiz=before,
        failed_quiz=failed,
        stopped_after_quiz=len(answers) - before - failed - len(kept),
        sizes=sizes,
        first_query={group: _count(kept, group, "first_query", QUERY_NAMES) for group in sizes},
        knowledge={group: _count(kept, group, "prior_knowledge", ("no", "yes")) for group in sizes},
        used={
            group: {
                "yes": sum(answer.used_rdr is True for answer in kept if answer.group == group),
                "no": sum(answer.used_rdr is False for answer in kept if answer.group == group),
            }
            for group in treated
        },
        summaries=tuple(
            _summarise(kept, query, known, group) for known in KNOWLEDGE for query in QUERY_NAMES for group in sizes
        ),
        comparisons=tuple(
            _compare(kept, query, known, pair)
            for known in KNOWLEDGE
            for query in QUERY_NAMES
            for pair in combinations(sizes, 2)
        ),
    )


def list_chosen(answers: Sequence[StudyAnswer], query: str, group: str, knowledge: str = "all") -> list[float]:
    """Return the ε's that one group chose for one query, in the order of the participants' numbers.

    ``knowledge``: ``all``, or only those with this answer (yes or no) on prior knowledge.
    """
    ordered = sorted(answers, key=lambda answer: answer.participant)
    mine = [a for a in ordered if a.group == group and knowledge in ("all", a.prior_knowledge)]
    return [epsilon for answer in mine if (epsilon := answer.epsilon(query)) is not None]


def _count(answers: Sequence[StudyAnswer], group: str, name: str, options: Sequence[str]) -> dict[str, int]:
    found = Counter(getattr(answer, name) for answer in answers if answer.group == group)
    return {option: found[option] for option in options}


def _summarise(answers: Sequence[StudyAnswer], query: str, knowledge: str, group: str) -> Summary:
    chosen = list_chosen(answers, query, group, knowledge)
    found = Counter(chosen)
    low, high = max(pairwise(EPSILONS), key=lambda pair: found[pair[0]] + found[pair[1]])
    return Summary(
        query=query,
        knowledge=knowledge,
        group=group,
        n=len(chosen),
        median=float(np.median(chosen)) if chosen else None,
        variance=float(np.var(chosen, ddof=1)) if len(chosen) > 1 else None,
        counts={format_epsilon(epsilon): found[epsilon] for epsilon in EPSILONS},
        densest=(format_epsilon(low), format_epsilon(high)),
        densest_n=found[low] + found[high],
    )


def _compare(answers: Sequence[StudyAnswer], query: str, knowledge: str, pair: tuple[str, str]) -> GroupComparison:
    first, second = (list_chosen(answers, query, group, knowledge) for group in pair)
    sizes = (len(first), len(second))
    return GroupComparison(
        query, knowledge, pair, sizes, compare_locations(first, second), compare_spreads(first, second)
    )


# ---------------------------------------------------------------- output for people and for programs


def _describe_summary(summary: Summary) -> JsonObject:
    return {
        "query": summary.query,
        "prior_knowledge": summary.knowledge,
        "group": summary.group,
        "n": summary.n,
        "median": summary.median,
        "variance": summary.variance,
        "counts": summary.counts,
    }


def _describe_comparison(compared: GroupComparison) -> JsonObject:
    location, spread = compared.location, compared.spread
    return {
        "query": compared.query,
        "prior_knowledge": compared.knowledge,
        "groups": list(compared.groups),
        "n": list(compared.n),
        "mann_whitney": None
        if location is None
        else {"u": location.u, "share": location.share, "p": location.p, "exact": location.exact},
        "brown_forsythe": None
        if spread is None
        else {"f": spread.f if math.isfinite(spread.f) else None, "p": spread.p},
    }


def _write_words(found: Analysis) -> Iterator[str]:
    analysed = len(found.answers)
    yield (
        f"{found.recruited} took part: {found.failed_quiz} did not pass the quiz, "
        f"{found.stopped_before_quiz + found.stopped_after_quiz} did not finish, "
        f"{analysed} {'is' if analysed == 1 else 'are'} analysed."
    )
    if len(found.texts_versions) > 1:
        yield f"These answers were given to different texts (versions {', '.join(found.texts_versions)})."
    for group, used in found.used.items():
        asked = used["yes"] + used["no"]
        if used["yes"] < asked:
            yield f"{used['no']} of {asked} in the {group} group say that they did not use the RDRs."
    yield "p-values are two-sided and not adjusted for the number of comparisons."


def _used_cells(found: Analysis, group: str) -> list[str]:
    used = found.used.get(group)
    return ["–", "–"] if used is None else [str(used["yes"]), str(used["no"])]


def _number(value: float | None) -> str:
    return "–" if value is None else format_number(value, 4)


def _p_value(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"
