"""What is measured of a query, and what adds up per person, each by another road than the code's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dosimeter.dataset import Dataset
from dosimeter.errors import Interrupted
from dosimeter.findings import find_enough
from dosimeter.findings.on_answer import WorthLittle
from dosimeter.ledger import Ledger
from dosimeter.options import LookOptions
from dosimeter.release import Fixed, read_way
from dosimeter.release.order import ReleaseOrder
from dosimeter.release.prepare import prepare_release
from dosimeter.risk.preference import parse_preference
from dosimeter.web.account_exposure import Sums, sum_guarantees
from dosimeter.web.decision.accuracy import list_numbers, show_errors
from dosimeter.web.decision.measured import MANY, MeasuredQuery, compress_classes, measure_query
from dosimeter.web.expected import expect_errors
from dosimeter.web.worker import JobMeter
from tests.known import known
from tests.schemas import category, decimal, declare, plain, whole
from tests.web.web_site import StartSite, read_text, write_dataset


def many_people(n: int, seed: int = 3) -> Dataset:
    dice = np.random.default_rng(seed)
    table = pa.table({"cost": np.round(dice.gamma(2.0, 3000.0, n), 2), "age": dice.integers(17, 91, n)})
    return Dataset.open(table, schema=declare("many", n, {"cost": decimal(0, 50000, 0.01), "age": whole(17, 90)}))


def prepare_many(
    dataset: Dataset, sql: str = "SELECT SUM(cost) FROM many", meter: JobMeter | None = None
) -> MeasuredQuery:
    order = ReleaseOrder(read_way(prefer="ratio:0.95"))
    return measure_query(dataset, prepare_release(dataset.schema, sql, LookOptions(), order), meter or JobMeter())


def test_numbers_stand_beside_the_public_names_of_their_groups() -> None:
    columns = {"ward": plain("text"), "name": plain("text"), "beds": plain("integer")}
    named = {"wards": {"public": True, "key": "ward", "columns": columns}}
    schema = declare("stays", 6, {"ward": category("a", "b")}, tables=named)
    wards = pa.table({"ward": ["a", "b"], "name": ["Anna", "Bert"], "beds": [2, 4]})
    stays = pa.table({"ward": ["a", "a", "b", "b", "b", "b"]})
    grouped = "(SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward) g JOIN wards w USING (ward)"
    with Dataset.open(stays, schema=schema, tables={"wards": wards}) as dataset:
        measured = prepare_many(dataset, f"SELECT w.name, n / beds AS per_bed FROM {grouped}")
        names = prepare_many(dataset, f"SELECT w.name FROM {grouped}")
    page = list_numbers(measured, 10.0, 0)
    assert [(row.keys, row.column, row.exact) for row in page.rows] == [
        (("Anna",), "per_bed", 1.0),
        (("Bert",), "per_bed", 1.0),
    ]
    assert all(" to " in row.range for row in page.rows)
    assert list_numbers(names, 10.0, 0).rows == ()


def test_few_groups_that_can_be_told_are_not_typical() -> None:
    """One large group and four small ones: a small ε tells the large one well, and is still no accurate answer."""
    sizes = {"a": 40_000, "b": 60, "c": 60, "d": 60, "e": 60}
    table = pa.table(
        {
            "place": np.repeat(list(sizes), list(sizes.values())),
            "age": np.arange(sum(sizes.values()), dtype=np.int64) % 60 + 20,
        }
    )
    schema = declare("many", sum(sizes.values()), {"place": category(*sizes), "age": whole(0, 100)})
    with Dataset.open(table, schema=schema) as dataset:
        measured = prepare_many(dataset, "SELECT place, AVG(age) FROM many GROUP BY place")
    told = {
        line.epsilon: [error for (error,) in measured.group_errors(line.epsilon, 5) if error is not None]
        for line in measured.candidates
    }
    tempting = [epsilon for epsilon, errors in told.items() if len(errors) == 1 and errors[0] <= 15.0]
    assert tempting
    enough = known(find_enough(measured.answers, 15.0))
    assert enough == min(
        epsilon for epsilon, errors in told.items() if sorted(errors)[2:] and sorted(errors)[2] <= 15.0
    )
    shown = show_errors(measured, 0)[tempting[0]]
    assert (shown.too_few, shown.text, shown.relative, shown.drowned) == (True, "too few", "–", True)
    at = measured.answers[tempting[0]]
    assert (at.too_few, at.typical, at.is_mostly_noise) == (4, (None,), True)


def test_a_sum_near_0_of_both_signs_has_no_relative_error_on_the_page_either() -> None:
    """Gains and losses cancel: the sum is small without being worth little, so that no error is a share of it (E6)."""
    table = pa.table({"gain": [10, *[-10, 10] * 500]})
    with Dataset.open(table, schema=declare("many", 1_001, {"gain": whole(-10, 10)})) as dataset:
        measured = prepare_many(dataset, "SELECT SUM(gain) FROM many")
    shown = show_errors(measured, 0)
    assert (shown[1.0].typical or 0.0) > 10.0 > (shown[10.0].typical or 0.0)
    assert (shown[1.0].relative, shown[10.0].relative[-2:]) == ("–", " %")


def test_the_picture_marks_the_errors_with_which_the_verdict_calls_an_answer_worth_little() -> None:
    """Also that of a median, whose error counts rows in the picture and is judged as a value."""
    ages = pa.table({"age": np.random.default_rng(1).integers(17, 91, 400)})
    with Dataset.open(ages, schema=declare("many", 400, {"age": whole(0, 100)})) as dataset:
        measured = prepare_many(dataset, "SELECT MEDIAN(age) FROM many")
        shown = show_errors(measured, 0)
        little = {at for at in shown if any(isinstance(each, WorthLittle) for each in measured.find_at(at))}
    assert little == {at for at, error in shown.items() if error.drowned}
    assert set() < little < set(shown)


def test_an_error_that_is_expected_is_the_one_that_is_released_where_noise_chooses_the_rows(tmp_path: Path) -> None:
    """HAVING chooses by any of the columns, which widens the errors of all (E2): more columns, a wider error."""
    columns = {"ward": category("a", "b", "c"), "age": whole(0, 100)}
    table = pa.table({"ward": ["a", "b", "c"] * 100, "age": [50] * 300})
    sql = "SELECT ward, COUNT(*) AS n, 2 * COUNT(*) AS a, 3 * COUNT(*) AS b FROM many GROUP BY ward HAVING COUNT(*) > 5"
    order = ReleaseOrder(read_way(epsilon=0.1))
    with Dataset.open(table, schema=declare("many", 300, columns)) as dataset, Ledger.open(tmp_path / "l.db") as ledger:
        found = expect_errors(prepare_release(dataset.schema, sql, LookOptions(), order), [0.1])
        answer = dataset.query(sql).release(ledger, Fixed(0.1), policy="budget:1")
    assert found.columns[0].errors == [known(answer.error_95)[0]]


@pytest.mark.parametrize("text", ["ratio:0.95", "ratio:0.9", "ratio:0.9999"])
def test_kept_numbers_choose_as_the_whole_table_does(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with many_people(3000) as dataset:
        whole = dataset.risk("SELECT SUM(cost) FROM many").find(text)
        monkeypatch.setattr("dosimeter.web.decision.measured.MANY", 10)
        measured = prepare_many(dataset)
        assert measured.many
        quick = known(measured.recall(parse_preference(text)))
    assert quick.epsilon == whole.epsilon
    assert quick.limit == pytest.approx(whole.limit)
    assert [line.satisfied for line in quick.candidates] == [line.satisfied for line in whole.candidates]
    assert [line.value for line in quick.candidates] == pytest.approx([line.value for line in whole.candidates])


def test_classes_for_the_picture_keep_both_ends() -> None:
    with many_people(30_000) as dataset:
        sensitivities = dataset.risk("SELECT SUM(cost) FROM many").sensitivities
    drawn = compress_classes(sensitivities)
    assert len(sensitivities.values) > MANY > len(drawn.values)
    assert drawn.n == sensitivities.n
    assert drawn.values[:200].tolist() == sensitivities.values[:200].tolist()
    assert drawn.values[-200:].tolist() == sensitivities.values[-200:].tolist()
    exact = float((sensitivities.values * sensitivities.counts).sum())
    assert float((drawn.values * drawn.counts).sum()) == pytest.approx(exact, rel=1e-12)


def test_computation_stops_when_asked() -> None:
    with many_people(100) as dataset:
        meter = JobMeter()
        meter.stopped = True
        with pytest.raises(Interrupted):
            prepare_many(dataset, meter=meter)


def test_sums_follow_everybody_through_all_answers(tmp_path: Path) -> None:
    """Brute force: every person's PIS by hand, from the raw table, for a COUNT, a SUM and a grouped COUNT."""
    rows = [
        (age, kind, hours) for age in range(20, 26) for kind in "ab" for hours in (0, 3, 8) for _ in range(1 + age % 2)
    ]
    ages, kinds, hours = (list(column) for column in zip(*rows, strict=True))
    columns = {"age": whole(0, 100), "kind": category("a", "b"), "hours": whole(0, 10)}
    schema = declare("staff", len(rows) + 2, columns)
    queries: list[tuple[str, float, Callable[[int, str, int], float]]] = [
        ("SELECT COUNT(*) FROM staff WHERE age >= 23", 0.5, lambda a, k, h: 1.0 if a >= 23 else 0.0),
        ("SELECT SUM(hours) FROM staff WHERE kind = 'a'", 0.25, lambda a, k, h: h / 10 if k == "a" else 0.0),
        ("SELECT kind, COUNT(*) FROM staff GROUP BY kind", 0.125, lambda a, k, h: 1.0),
    ]
    with (
        Dataset.open(pa.table({"age": ages, "kind": kinds, "hours": hours}), schema=schema) as dataset,
        Ledger.open(tmp_path / "l.db") as ledger,
    ):
        for sql, epsilon, _ in queries:
            dataset.query(sql).release(ledger, Fixed(epsilon), policy="budget:9")
        account = known(ledger.account("staff"))
        sums = sum_guarantees(dataset, account.entries, JobMeter())
    own = sorted((sum(e * share(*row) for _, e, share in queries) for row in rows), reverse=True)
    assert sums.total == 0.875
    assert sums.largest == pytest.approx(own[0])
    assert sums.holders == sum(abs(value - own[0]) < 1e-9 for value in own)
    assert (sums.people, sums.untouched) == (len(rows), 0)  # two declared slots are empty: nobody is counted for them
    expected = sorted({round(value, 12) for value in own}, reverse=True)[:6]
    assert [value for value, _ in sums.steps] == pytest.approx(expected)
    assert [people for _, people in sums.steps] == [sum(abs(v - e) < 1e-9 for v in own) for e in expected]
    assert sums.median == pytest.approx(own[(len(own) - 1) // 2], abs=0.13)


def test_sums_go_on_after_groups_that_nobody_declared(tmp_path: Path) -> None:
    """Three answers in one account: a count, topics that nobody declared, and topics by joined floors.

    By hand: whoever has a topic moves one cell of the count and one of the individuals in it; S5 halves nothing, since
    the two are one measure. Whoever has none moves nothing.
    """
    topics = ["flu"] * 30 + ["gout"] * 9 + [None] * 3
    table = pa.table({"topic": pa.array(topics, pa.string()), "room": [at % 2 for at in range(len(topics))]})
    columns = {"number": whole(0, 1), "wing": plain("text")}
    beside = {"rooms": {"public": True, "key": "number", "source": "rooms.csv", "columns": columns}}
    schema = declare("notes", len(topics), {"topic": plain("text"), "room": whole(0, 1)}, tables=beside)
    shown: dict[str, Any] = {"groups": "thresholded", "group_delta": 1e-6}
    asked: list[tuple[str, float, dict[str, Any]]] = [
        ("SELECT COUNT(*) FROM notes WHERE room = 0", 0.5, {}),
        ("SELECT topic, COUNT(*) FROM notes GROUP BY topic", 0.25, shown),
    ]
    rooms = pa.table({"number": [0, 1], "wing": ["north", "south"]})
    with (
        Dataset.open(table, schema=schema, table="notes", tables={"rooms": rooms}) as dataset,
        Ledger.open(tmp_path / "l.db") as ledger,
    ):

        def spend(sql: str, epsilon: float, given: dict[str, Any]) -> Sums:
            dataset.query(sql, **given).release(ledger, Fixed(epsilon), policy="budget:9", delta_total=1e-3)
            account = known(ledger.account("notes"))
            return sum_guarantees(dataset, account.entries, JobMeter())

        for sql, epsilon, given in asked:
            found = spend(sql, epsilon, given)
        joined = spend("SELECT wing, COUNT(*) FROM notes JOIN rooms ON room = number GROUP BY wing", 0.125, shown)
    own = [0.5 * (at % 2 == 0) + 0.25 * (topic is not None) for at, topic in enumerate(topics)]
    assert (found.bound, found.people, found.total) == (False, len(topics), 0.75)
    assert dict(found.steps) == {value: own.count(value) for value in set(own)}
    assert (joined.bound, joined.largest) == (True, 0.875)  # joins are not followed: an upper bound


def test_people_with_several_rows(start_site: StartSite, tmp_path: Path) -> None:
    """One individual, many rows: who they are is masked, and their guarantees are added as a bound."""
    rows = [(f"p{n % 40}", f"v{n}", n % 9) for n in range(100)]
    facts = (
        'individuals = 40\nunit = "person"\nmax_rows_per_unit = 3\nrow_key = "visit"\ncolumns.person.type = "text"\n'
    )
    facts += 'columns.visit.type = "text"\ncolumns.cost = { type = "integer", bounds = [0, 10] }'
    lines = [",".join(map(str, row)) for row in [("person", "visit", "cost"), *rows]]
    dataset = write_dataset(tmp_path, "visits", lines, facts, policy="budget:50")
    site = start_site(datasets={"visits": dataset})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        shares: list[tuple[str, Callable[[int], int]]] = [
            ("SELECT SUM(cost) FROM visits", lambda cost: cost),
            ("SELECT COUNT(*) FROM visits WHERE cost > 3", lambda cost: cost > 3),
        ]
        for sql, share in shares:
            moved = Counter[str]()
            for person, _, cost in rows:
                moved[person] += share(cost)
            exposed = {person for person, change in moved.items() if change == max(moved.values())}
            query_id = anna.ask(sql, dataset="visits")
            assert "Largest ε that meets" in carol.get(f"/decide/{query_id}").text
            people = carol.get(f"/decide/{query_id}/people", params={"epsilon": "1"}).text
            assert "•••" in people
            assert not re.findall(r"\bp\d+\b", read_text(people))
            revealed = read_text(carol.act(f"/decide/{query_id}/reveal", epsilon="1").text)
            first = known(re.search(r"(\d+) people share this ([^×]+) \d", revealed))
            named = set(first[2].split(", "))
            assert (int(first[1]), len(named)) == (len(exposed), min(len(exposed), 8))
            assert named <= exposed
            groups = carol.get(f"/decide/{query_id}/groups", params={"column": "person", "epsilon": "1"})
            assert groups.status_code == 422
            assert carol.approve(query_id, "0.01").status_code == 200
        sums = read_text(carol.get("/accounts/visits/people").text)
    assert "Nobody's own guarantees add up to more than 0.0" in sums
