"""A Risk: everybody's exposure to one query, and all that is derived from it. Private to the controller.

Calls the packages in order: profile → contributions → sensitivities → RDRs at each ε → the chosen ε. The profile is
measured once; everything after it is arithmetic on distinct contributions. What needs the data again reads the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter.assessment.candidates import (
    compute_rdrs,
    foresee_each,
    list_lines,
    measure_absolutes,
    split_epsilons,
)
from dosimeter.assessment.choosing import advise, choose
from dosimeter.errors import OptionError, PreferenceError, QueryError
from dosimeter.findings import (
    AccountRefuses,
    Choice,
    Finding,
    Remark,
    find_notes,
    find_unstated,
    find_worlds,
    word,
    word_all,
)
from dosimeter.html import write_paragraphs
from dosimeter.influence import (
    Contributions,
    DeclaredTables,
    LeftOut,
    Measured,
    Profile,
    measure_exactly,
    measure_influence,
    measure_plain,
)
from dosimeter.json_values import JsonObject
from dosimeter.mechanisms import Mechanism
from dosimeter.options import Indicator, View, check_option
from dosimeter.planning import (
    QueryPlan,
    note_values,
    scope_of,
)
from dosimeter.postprocess import ColumnAccuracy, Keys, Numbers, PlainAnswer, measure_scales
from dosimeter.risk import (
    AbsoluteRisk,
    Candidate,
    ExposedPerson,
    GroupRisk,
    Preference,
    PreferenceFunction,
    RankCells,
    RDRs,
    Sensitivities,
    ShownGroups,
    TwoWorlds,
    advantage,
    foresee_groups,
    largest_difference,
    own_epsilon,
    parse_candidates,
    parse_preference,
    summarise_sensitivities,
)
from dosimeter.sql import check_condition, note_unlisted

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa
    from sqlglot import exp

    from dosimeter.arrays import FloatArray
    from dosimeter.influence import MovedNumber

MOST_IN_HISTOGRAM = 10_000


@dataclass(frozen=True, repr=False, eq=False)
class Risk:
    """Everybody's per-instance sensitivity and RDR for one query under one mechanism.

    ``n``: the number of slots (N2). ``present``: how many individuals are in the table (N5); averages and other numbers
    over people are over these. ``candidates``: the ε's to look at. ``odd_cells``: by column name, how many odd cells
    the column has, as far as that is known. ``left_out``: what of the data is not measured as it is (E4). ``foreseen``:
    the accuracies computed so far. A Risk holds numbers. Only ``people``, ``by``, a preference with FILTER and an exact
    answer that the profile does not hold go back to the data, through ``tables``: these need the dataset open and
    unchanged, in the thread that its engine belongs to. What is derived is computed when it is first asked for.
    """

    plan: QueryPlan
    mechanism: Mechanism
    indicator: Indicator
    n: int
    present: int
    contributions: Contributions
    candidates: tuple[float, ...]
    notes: tuple[str, ...]
    profile: Profile
    tables: DeclaredTables
    left_out: LeftOut
    odd_cells: Mapping[str, int] | None = None
    foreseen: dict[tuple[float, bool, bool], tuple[ColumnAccuracy, ...]] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"Risk(n={self.n}, redacted)"

    # ------------------------------------------------------------ numbers

    @cached_property
    def sensitivities(self) -> Sensitivities:
        """Return the per-instance sensitivities, ascending, one per class of equally exposed people."""
        return self.summarise(self.contributions)

    @property
    def k(self) -> int:
        return self.contributions.k

    @property
    def matched(self) -> int:
        """Return how many individuals the query touches."""
        return self.profile.matched

    @cached_property
    def grids(self) -> FloatArray:
        """Return the steps on which each measured number and its noise lie, in the mechanism's norm."""
        return self.plan.grids(self.mechanism.norm)

    @cached_property
    def reach(self) -> int:
        """Return k₁ (R11): how many noisy numbers one individual's rows can reach."""
        rows = self.plan.schema.max_rows_per_unit
        if self.plan.schema.unit == "row" or self.plan.is_one_row_each:
            rows = 1
        groups = self._list_groups()
        return sum(len(block.measures) * min(rows, each) for block, each in zip(self.plan.blocks, groups, strict=True))

    @property
    def pure(self) -> bool:
        """Return whether an answer guarantees ε with δ = 0: neither its noise nor thresholded groups cost a δ."""
        return self.mechanism.pure and self.plan.threshold is None

    @property
    def group_delta(self) -> float:
        """Return the δ of thresholded groups, and 0 for groups that are declared (H1)."""
        return 0.0 if self.plan.threshold is None else self.plan.threshold.delta

    @cached_property
    def difference(self) -> tuple[float, bool]:
        """Return the largest distance of two people's contributions, or an upper bound, and whether exact (P2)."""
        return largest_difference(self.contributions, self.mechanism.norm)

    @cached_property
    def sensitivity(self) -> float:
        """Return Δ, the sensitivity of all measured numbers together, in the mechanism's norm."""
        return self.plan.sensitivity(self.mechanism.norm)

    def rdr(self, epsilon: float) -> RDRs:
        """Return the RDRs at one ε, in the order of ``sensitivities``.

        Args:
            epsilon: the ε whose noise would be drawn.
        """
        return self.rdr_of(self.sensitivities, epsilon)

    def noise_scale(self, epsilon: float) -> float:
        return self.mechanism.scale(self.sensitivity, epsilon)

    def candidate(self, epsilon: float) -> Candidate:
        """Return one ε with its accuracy, the spread of its RDRs and its absolute risks."""
        return self.list_candidates([epsilon])[0]

    def list_candidates(self, epsilons: Sequence[float] | None = None) -> tuple[Candidate, ...]:
        """Return one Candidate for each of these ε's, by default for the candidates of this risk."""
        return self._lines if epsilons is None or tuple(epsilons) == self.candidates else self._compute_lines(epsilons)

    @cached_property
    def _lines(self) -> tuple[Candidate, ...]:
        return self._compute_lines(self.candidates)

    def _compute_lines(self, epsilons: Sequence[float]) -> tuple[Candidate, ...]:
        foresee_each(self, epsilons)  # all in one pass
        parts = split_epsilons(self.sensitivities, epsilons)
        return tuple(line for part in parts for line in list_lines(self, compute_rdrs(self, self.sensitivities, part)))

    def summarise(self, contributions: Contributions) -> Sensitivities:
        """Return one sensitivity per class of equally exposed people, with what else this risk's indicator needs."""
        vectors = self.indicator == "exact" and (bool(self.plan.ranks) or self.mechanism.needs_vectors(self.k))
        found = summarise_sensitivities(contributions, self.mechanism.norm, keep_vectors=vectors)
        return replace(found, k=self.reach) if self.indicator == "cell" else found

    def rdr_of(self, sensitivities: Sensitivities, epsilon: float) -> RDRs:
        """Return the RDRs of these classes of people at one ε."""
        return compute_rdrs(self, sensitivities, [epsilon])[0]

    @cached_property
    def ranked(self) -> RankCells:
        """Return the numbers that are drawn by rank. Each holds its group's values and how often they occur."""
        return RankCells.of(self.plan, self.measured())

    def foresee(self, epsilon: float, *, clamp: bool = False, read: bool = False) -> tuple[ColumnAccuracy, ...]:
        """Return the accuracy of each aggregate column of the answer at one ε, over its groups (E1).

        Exact numbers are used if the profile holds them. Otherwise they are read from the data, but only if an error
        depends on them or ``read`` is true. Without exact numbers, there are no relative errors.

        Args:
            epsilon: the ε whose noise would be drawn.
            clamp: whether released numbers would be put back into their bounds.
            read: read the exact numbers even if no error depends on them.
        """
        return foresee_each(self, [epsilon], clamp=clamp, read=read)[0]

    def own_epsilons(self, values: FloatArray, shares: FloatArray | None, epsilon: float) -> FloatArray:
        """Return the own guarantee, in ε, of people with these PIS, one per PIS (P1).

        ``shares``: if something is drawn by rank, the share of ε that bounds each guarantee (R12).
        """
        return own_epsilon(
            values,
            self.mechanism,
            sensitivity=self.sensitivity,
            scale=self.noise_scale(epsilon),
            epsilon=epsilon,
            shares=shares,
        )

    def advantages(
        self, values: FloatArray, shares: FloatArray | None, epsilon: float, epsilon_svt: float = 0.0
    ) -> FloatArray:
        """Return the membership advantage of people with these PIS, one per PIS (P4).

        ``shares``: if something is drawn by rank, the share of ε that bounds each own guarantee (R12). ``epsilon_svt``:
        the ε that was spent on finding ε with noise.
        """
        return advantage(
            values,
            self.mechanism,
            sensitivity=self.sensitivity,
            scale=self.noise_scale(epsilon),
            epsilon=epsilon,
            grids=self.grids,
            cells=self.reach,
            epsilon_svt=epsilon_svt,
            shares=shares,
            group_delta=self.group_delta,
        )

    def measured(self) -> Measured:
        """Return the exact measured numbers of every group, from the profile or else from the data. Never released."""
        return self._exact_numbers

    @cached_property
    def _exact_numbers(self) -> Measured:
        return measure_exactly(self.plan, self.tables, self.profile)

    def held_numbers(self) -> list[tuple[Keys, Numbers]]:
        """Return the groups and exact numbers of each block, cut to what the declared individuals can reach (N4)."""
        found: list[tuple[Keys, Numbers]] = []
        people = self.plan.schema.individuals
        for block, each in zip(self.plan.blocks, self.measured().blocks, strict=True):
            values: Numbers = each.values
            if self.left_out.undeclared_people:
                values = [
                    [
                        measure.round_to_grid(number, people) * measure.grid
                        for measure, number in zip(block.measures, row, strict=True)
                    ]
                    for row in values
                ]
            found.append((each.keys, values))
        return found

    @cached_property
    def plain(self) -> PlainAnswer | None:
        """Return the plain answer (E4), read from the data; None where it cannot be had. For what leaves nothing out,
        None too.
        """
        if not self.left_out.moves_numbers or not self.plan.digest:
            return None
        found = measure_plain(self.plan, self.tables, self.left_out)
        if found is None:
            return None
        wide, measured = found
        numbers = [(each.keys, each.values) for each in measured.blocks]
        return PlainAnswer(wide, numbers)

    def contributions_by(self, attributes: Mapping[str, exp.Expression]) -> tuple[Profile, Contributions]:
        """Return the profile of everybody, also of those outside the WHERE, and everybody's contributions.

        ``attributes``: the columns and conditions to read of everybody, by the names they get in the contributions.
        Only individuals with the same attributes are counted together in one row of the profile or of the
        contributions.
        """
        return measure_influence(self.plan, self.tables, max(self.present, 1), self.mechanism.norm, attributes)

    # ------------------------------------------------------------ choosing

    def find(
        self,
        prefer: str | PreferenceFunction | Preference,
        *,
        threshold: float | None = None,
        candidates: str | Sequence[float] | None = None,
        available: Callable[[Sequence[float]], Sequence[float]] | None = None,
        refuse: Callable[[Sequence[float]], AccountRefuses | None] | None = None,
        hidden: bool = False,
    ) -> Choice:
        """Find the largest candidate ε that meets a preference. Nothing is charged and nothing is released.

        Args:
            prefer: ``"ratio:0.95"``, ``"advantage:0.2,error:10"``, a preset (``"cautious"``, ``"balanced"``,
                ``"exploratory"``), a condition such as ``"MIN(rdr) / MAX(rdr) >= 0.95"``, or a callable of the RDRs and
                how many people have each, which returns a bool, or a number to compare with ``threshold``.
            threshold: what a callable's number must reach.
            candidates: the ε's to try, instead of those the risk was made with.
            available: a function that returns which of these ε's the account's reading allows (O2); by default all.
            refuse: a function of ε's that finds why the account allows none of them. The choice's ``words`` say it.
            hidden: the account finds ε from the data and hides it (algorithm 1), so that no limit on risk holds.

        Returns:
            The choice: its ε (None where no candidate meets the preference), the exact limit, a line per candidate.

        Raises:
            PreferenceError: the preference is not a condition on RDRs, other risks or errors.
        """
        preference = prefer if isinstance(prefer, Preference) else parse_preference(prefer, threshold=threshold)
        epsilons = None if candidates is None else parse_candidates(candidates)
        return choose(self, preference, epsilons, available=available, refuse=refuse, hidden=hidden)

    def check_filters(self, preference: Preference) -> dict[str, exp.Expression]:
        """Return the conditions of the preference's FILTERs, by name, each checked against the schema.

        Raises PreferenceError if a condition is not allowed.
        """
        scope = scope_of(self.plan)
        try:
            return {name: check_condition(tree, scope) for name, tree in preference.filters.items()}
        except QueryError as error:
            raise PreferenceError("In the preference's FILTER: ", *error.problem.pieces) from None

    def list_remarks(self, filters: Collection[exp.Expression] = ()) -> list[Remark]:
        """Return remarks on the data, and on each value in the query or in a FILTER that the schema does not list."""
        unlisted = note_unlisted(filters, scope_of(self.plan).schema) if filters else ()
        return [Remark(words) for words in (*note_values(self.plan), *unlisted, *self.notes)]

    @property
    def groups(self) -> int:
        """Return how many groups the answer has, over all its SELECTs."""
        return sum(self._list_groups()[: len(self.plan.answered)])

    def _list_groups(self) -> list[int]:
        """Return how many groups each block of the plan has.

        The groups of a single block can be declared ones or those in the data. Several blocks have declared groups.
        """
        if not self.plan.further:
            return [self.k // len(self.plan.measures)]
        return [len(block.group_keys or ()) for block in self.plan.blocks]

    def list_findings(self, lines: Sequence[Candidate], start: float | None = None) -> tuple[Finding, ...]:
        """Return what is worth saying about this risk without a preference.

        ``lines``: the candidates. ``start``: the one to start from, if there is one.
        """
        return (*find_unstated(self, lines, start), *self.list_remarks(), *find_notes(self, lines))

    def risk_notes(self) -> tuple[str, ...]:
        """Return the notes for the controller that do not depend on a preference (R7, R8)."""
        found = self.list_findings(self.list_candidates())
        return word_all((each for each in found if each.is_note), self.plan.words)

    @cached_property
    def smallest_group(self) -> int | None:
        """Return how many individuals are in the smallest group that is not empty; None if there is no such group.

        None also for thresholded groups, of which small ones are not shown.
        """
        if self.groups < 2 or self.plan.threshold is not None:
            return None
        return min(self.profile.group_sizes(), default=None)

    # ------------------------------------------------------------ people and groups

    def foresee_groups(self, epsilons: Sequence[float] | None = None) -> ShownGroups:
        """Return how many thresholded groups would be shown at each ε (H1).

        Args:
            epsilons: the ε's to look at; by default the candidates.

        Raises:
            OptionError: the groups are not thresholded, so all of them are shown.
        """
        threshold = self.plan.threshold
        if threshold is None:
            raise OptionError("Declared groups are all shown.")
        sizes = np.array([int(row[threshold.people]) for row in self.measured().values], dtype=np.int64)
        scales = {
            epsilon: float(measure_scales(self.plan, self.mechanism, self.noise_scale(epsilon))[threshold.people])
            for epsilon in epsilons or self.candidates
        }
        return foresee_groups(sizes, self.mechanism, scales, group_delta=threshold.delta, most=threshold.most)

    def people(
        self,
        count: int = 10,
        *,
        epsilon: float | None = None,
        columns: Sequence[str] | None = None,
        reveal: bool = False,
    ) -> pa.Table:
        """Return the most exposed records as a table, identical records in one row, and why they are exposed.

        Args:
            count: how many records.
            epsilon: the ε at which they are compared with the average person; by default the largest candidate,
                10 unless others were given. The column ``epsilon`` says which one it was.
            columns: which columns to show; by default those that the query reads or that identify people.
            reveal: show the values of columns that identify people, which are masked otherwise.
        """
        import pyarrow as pa

        at = self.candidates[0] if epsilon is None else epsilon
        found = self.list_people(count, epsilon=at, columns=columns, reveal=reveal)
        return pa.Table.from_pylist([{**asdict(person), "epsilon": at} for person in found])

    def list_people(
        self, count: int, *, epsilon: float | None = None, columns: Sequence[str] | None = None, reveal: bool = False
    ) -> list[ExposedPerson]:
        """Return the most exposed records as a list; ``people`` returns the same as a table."""
        from dosimeter.assessment.people import list_people

        return list_people(self, count, epsilon=epsilon, columns=columns, reveal=reveal)

    def by(self, column: str, *, epsilon: float | None = None, reveal: bool = False) -> list[GroupRisk]:
        """Return the median and the largest RDR for each value of a column, divided by the average person's RDR.

        Args:
            column: the column whose values are the groups.
            epsilon: the ε to look at; by default the largest candidate.
            reveal: allow a column that identifies people, whose values are listed then.
        """
        from dosimeter.assessment.people import list_groups

        return list_groups(self, column, epsilon=epsilon, reveal=reveal)

    @cached_property
    def moved_number(self) -> MovedNumber | None:
        """Return the measured number that the most exposed person moves most, with and without them; None for none."""
        from dosimeter.assessment.worlds import find_moved_number

        return find_moved_number(self)

    def worlds(self, epsilon: float) -> TwoWorlds | None:
        """Return the chance of each number that may be released at this ε, with the most exposed person and without.

        It is about one number: the one that this person moves most, relative to its noise. The chances are the
        mechanism's own, exactly. None if nobody moves any number.

        Args:
            epsilon: the ε whose noise would be drawn.
        """
        from dosimeter.assessment.worlds import compare_worlds

        return compare_worlds(self, epsilon)

    def absolute(
        self, epsilon: float, *, prior: float = 0.01, baseline: float = 0.1, charge: float | None = None
    ) -> AbsoluteRisk:
        """Return the absolute risks of the most exposed person at one ε, beside the RDR, which compares people (P1–P5).

        They are the own guarantee, the membership advantage, the probability of being picked out, what a belief can
        become, and how often a fact about a person is guessed.

        Args:
            epsilon: the ε of the answer.
            prior: the probability at which somebody believes beforehand that a person is in the data.
            baseline: the probability with which somebody who knows everything about everybody else would guess a fact
                about a person beforehand: 1 divided by the number of its values, if all are equally likely.
            charge: what the answer is charged in all, in ε, if that is more than ε.
        """
        return measure_absolutes(self, [epsilon], prior=prior, baseline=baseline, charge=charge)[0]

    def own_guarantee(self, epsilon: float) -> float:
        """Return the ε that an answer at this ε really guarantees the most exposed person (P1)."""
        return self.absolute(epsilon).own_epsilon

    # ------------------------------------------------------------ showing

    def plot(self, view: View = "relative", *, epsilons: Sequence[float] | None = None) -> alt.LayerChart:
        """Return an Altair chart of who is how exposed. A notebook shows it without the internet.

        Args:
            view: ``"relative"``: the RDRs from the least to the most exposed person at each ε, relative to the average
                person; ``"raw"``: the same as they are; ``"worlds"``: at one ε, the chance of each number that may be
                released, with the most exposed person and without.
            epsilons: the ε's to show; by default the candidates. Of two worlds the first is shown, by default the
                largest candidate, as in ``people``.

        Raises:
            OptionError: there is no such view, nobody moves any number, or the group is hardly ever shown.
        """
        from dosimeter.show.charts import draw_altair, range_chart, worlds_chart

        check_option("view", view)
        if view == "worlds":
            worlds = self.worlds((epsilons or self.candidates)[0])
            words = word(find_worlds(worlds), self.plan.words)
            if worlds is None or worlds.hidden:
                raise OptionError(words)
            return draw_altair(worlds_chart(worlds, words))
        lines = self.list_candidates(epsilons or None)
        return draw_altair(range_chart(lines, view=view, called=self.plan.words))

    def histogram(self, epsilon: float) -> alt.LayerChart:
        """Return everybody's RDR at one ε as an Altair chart, which a notebook shows without the internet.

        Args:
            epsilon: the ε to look at.
        """
        from dosimeter.show.charts import draw_altair, histogram_chart

        return draw_altair(histogram_chart(self.rdr(epsilon), called=self.plan.words))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the chart of ``plot`` for a notebook, and advice in words: where to start, and the verdict there.

        The chart loads nothing from the internet and has no button that would send it anywhere.
        """
        from dosimeter.show.charts import draw_svg

        picture, told = draw_svg(self.plot()), write_paragraphs(advise(self, self.list_candidates()))
        return {"text/html": picture + told, "image/svg+xml": picture, "text/plain": repr(self)}

    def distribution(self, epsilons: Sequence[float]) -> pa.Table:
        """Return each class's sensitivity, its number of individuals, and its RDR at each ε, as an Arrow table.

        Args:
            epsilons: the ε's, a column each.
        """
        import pyarrow as pa

        sensitivities = self.sensitivities
        columns: dict[str, object] = {
            "sensitivity": sensitivities.values,
            "people": sensitivities.counts,
        }
        for epsilon in epsilons:
            columns[f"rdr_{epsilon!r}"] = self.rdr(epsilon).values
        return pa.table(columns)

    def head(self) -> JsonObject:
        """Return the JSON fields that the commands ``risk`` and ``find`` share."""
        values, counts = self.sensitivities.values, self.sensitivities.counts
        distinct, where = np.unique(values, return_inverse=True)
        people = np.bincount(where, weights=counts).astype(np.int64)
        mean = float(np.average(values, weights=counts)) if counts.sum() else 0.0
        variance = float(np.average((values - mean) ** 2, weights=counts)) if counts.sum() else 0.0
        listed = None
        if len(distinct) <= MOST_IN_HISTOGRAM:
            listed = [{"value": float(v), "count": int(c)} for v, c in zip(distinct, people, strict=True)]
        return {
            "query": self.plan.sql,
            "mechanism": self.mechanism.name,
            "calibration": self.mechanism.calibration,
            "delta": self.mechanism.delta,
            "indicator": self.indicator,
            "n": self.n,
            "people": self.present,
            "matched": self.matched,
            "k": self.k,
            "sensitivity": self.sensitivity,
            "method": "closed-form",
            "odd_cells": None if self.odd_cells is None else dict(self.odd_cells),
            **self.left_out.describe(),
            "sensitivities": {
                "min": float(distinct[0]),
                "max": float(distinct[-1]),
                "mean": mean,
                "variance": variance,
                "distinct": len(distinct),
                "histogram": listed,
            },
            **({} if self.plan.threshold is None else {"thresholded": self.foresee_groups().describe()}),
        }
