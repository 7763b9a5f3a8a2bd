"""Findings on people: how many are concerned, and what an attacker could learn of them (P1–P5, N5)."""

from __future__ import annotations

from dosimeter.findings.finding import Finding, Subject, Weight

FEW = 5
"""Fewer people than this are as good as named."""


class OnPeople(Finding, about=Subject.PEOPLE):
    """A finding on people."""


class AgainstPeople(OnPeople, weight=Weight.AGAINST):
    """Something about people that speaks against taking the ε."""


class WarningOfPeople(OnPeople, weight=Weight.WARNING):
    """Something about people to look at before the ε is taken."""


class SinglesOut(AgainstPeople):
    """The query tests identifying columns. ``clauses``: these tests, as SQL."""

    columns: tuple[str, ...]
    clauses: tuple[str, ...]


class NobodyTouched(AgainstPeople):
    """Nobody is in the query: the answer is noise."""


class FewTouched(AgainstPeople):
    people: int


class FewInGroup(AgainstPeople):
    """The smallest group of the answer holds few people."""

    people: int


class EquallyExposed(OnPeople, is_note=True):
    """Everybody has the same RDR at every ε. ``smallest``: how many people the smallest group holds, if it is known."""

    smallest: int | None


class FailsPreference(AgainstPeople):
    """This ε does not meet the preference. ``found``: the largest that does and that the account grants."""

    epsilon: float
    found: float | None


class FailsByAccuracy(AgainstPeople, about=Subject.ANSWER):
    """This ε fails the preference by its conditions on errors alone."""

    epsilon: float
    found: float | None


class MeetsPreference(OnPeople):
    epsilon: float


class FoundFromData(WarningOfPeople):
    """ε is found from the data and hidden (algorithm 1): no limit on risk holds (G2)."""


class MetByAll(WarningOfPeople):
    """Every ε meets the preference, so that it decides nothing about the risk (F4)."""


class NoLimitOnRisk(WarningOfPeople):
    """The preference is about errors alone."""


class LooserThanOwn(WarningOfPeople):
    """The preference is looser than the controller's own standard.

    ``share``: the standard's limit on least ÷ most exposed; None if it is the preset ``name``. ``allowed``: the largest
    ε that it admits; None if it admits none.
    """

    share: float | None
    name: str
    allowed: float | None


class TestAtWorst(WarningOfPeople):
    """The noisy test finds ε. ``epsilon``: the largest that it can find. ``charge``: that, and the test's own ε.

    ``likely``: the one that it would find without noise; None if it would find none.
    """

    epsilon: float
    charge: float
    likely: float | None


class BeyondStandard(AgainstPeople):
    """The noisy test likely finds an ε above what the controller's own standard allows. ``name``: of the standard.

    ``allowed``: the largest ε that it allows; None if it allows none.
    """

    epsilon: float
    name: str
    allowed: float | None


class AllowedByGroups(WarningOfPeople):
    """The preference allows this ε only because the noise in all groups is counted (R11).

    ``by_cell``: what it allows if only noise counts that one individual's rows can reach; None if it allows none.
    """

    epsilon: float
    by_cell: float | None


class DecidesNothing(WarningOfPeople):
    """Every candidate meets the preference (F4). The rest says what the largest candidate would tell.

    ``exposed`` and ``touched``: how many people are most exposed, and how many are in the query.
    """

    epsilon: float
    advantage: float
    prior: float
    posterior: float | None
    exposed: int
    touched: int


class NobodyMoves(WarningOfPeople):
    """Nobody moves the answer, so that no preference on people decides (F4). ``touched``: as in DecidesNothing."""

    touched: int


class Cautious(OnPeople):
    """The largest candidate at which nobody's membership advantage exceeds 0.25 (P4).

    ``moved``: whether somebody moves the answer; otherwise the advantage is that of somebody who would.
    """

    epsilon: float
    moved: bool


class NoneCautious(WarningOfPeople):
    """At every candidate somebody's membership advantage exceeds 0.25."""


class OwnGuarantee(OnPeople):
    """The own guarantee of the most exposed person, in ε (P1)."""

    own: float


class RightGuesses(OnPeople):
    """How many more of 100 guesses who is in are right at most (P4). ``advantage``: the membership advantage."""

    advantage: float


class Suspicion(OnPeople):
    """What a suspicion can become at most (P3). ``charge``: the ε from which that follows.

    ``false_alarms``: how probable the alarm has to be, at least, without the person that it is about; None if the limit
    holds after every answer, whoever it is about.
    """

    prior: float
    posterior: float
    charge: float
    false_alarms: float | None


class GuessedFact(OnPeople):
    """How often a fact about a person is guessed at most, with the answer (P5). ``baseline``: how often without."""

    baseline: float
    guess: float


class PickedOut(OnPeople):
    """The chance of picking the right one of ``people`` (P2). ``exact``: it is no estimate."""

    chance: float
    people: int
    exact: bool


class AsLikely(OnPeople):
    """How many times as likely some number is to be released with the most exposed person as without.

    ``number``: which number, by the answer's column or, if columns are ``made`` from it, by its own name. ``group``:
    the values of its group; "" without groups. ``released``: the released number, or the middle of a ``range`` of them.
    ``width``: with as many digits it is written as tell apart numbers that lie a tenth of this apart. ``times``: ∞ if
    it is never released without the person.
    """

    number: str
    made: tuple[str, ...]
    group: str
    released: float
    range: bool
    width: float
    times: float


class HardlyShown(OnPeople):
    """The most exposed person's group is hardly ever shown (H1). The chances that it is, with them and without."""

    group: str
    with_them: float
    without: float


class SameWorlds(OnPeople):
    """Nobody moves any number, so that the same is released with anybody and without."""


class LimitsHold(OnPeople):
    """When the limits above hold: for an ε that was not found from the data (G2)."""
