"""The same people in another form: the controller is told when an account is opened, and nobody else learns of it."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import DatasetStopped, LedgerError
from dosimeter.ledger import people as kept_people
from dosimeter.ledger.people import People, SharedPeople, compare_people
from dosimeter.release import account_terms, write_record
from tests.known import known
from tests.ledger.raw_records import export_records

pytestmark = pytest.mark.smoke

COUNT = "SELECT COUNT(*) FROM {}"


def facts(name: str, kind: str = "text", **changes: Any) -> dict[str, Any]:
    columns = {"pid": {"type": kind}, "age": {"type": "integer", "bounds": [0, 120]}}
    given = {"table": name, "individuals": 400, "unit": "pid", "max_rows_per_unit": 1, "row_key": "pid"}
    return {**given, "reviewed": True, "columns": columns, **changes}


def release(ledger: Ledger, source: Any, name: str, kind: str = "text", **options: Any) -> str:
    """Release once from the account of this name. Gives the status, or the refusal's message."""
    how = {key: options.pop(key) for key in ("table", "null", "engine") if key in options}
    schema = facts(name, kind, **options.pop("schema", {}))
    with Dataset.open(source, schema=schema, **how) as dataset:
        try:
            sql = COUNT.format(name)
            return dataset.release(sql, ledger=ledger, epsilon=1, **{"policy": "budget:9"} | options).status
        except LedgerError as error:
            return str(error)


def table_of(*keys: object, ages: int = 40) -> pa.Table:
    return pa.table({"pid": list(keys), "age": [ages] * len(keys)})


# ---------------------------------------------------------------- forms


def make_forms(folder: Path) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Write the same 300 people in many forms; give sources, and how each is opened."""
    lines = ["pid,age", *(f"p{at},{at % 90}" for at in range(300))]
    (folder / "crlf.csv").write_bytes("\r\n".join(lines).encode() + b"\r\n")
    (folder / "lf.csv").write_bytes("\n".join(lines).encode() + b"\n")
    (folder / "bom.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    table = pc.read_csv(folder / "lf.csv")
    pq.write_table(table, folder / "p.parquet")
    pq.write_table(table, folder / "packed.parquet", compression="gzip")
    with duckdb.connect(str(folder / "d.duckdb")) as connection:
        connection.execute(f"CREATE TABLE people AS FROM '{folder / 'lf.csv'}'")
        connection.execute("CREATE TABLE wider AS SELECT *, 1 AS one FROM people ORDER BY age")
        connection.execute("CREATE VIEW most AS SELECT pid, age FROM people WHERE age > 3 LIMIT 250")
    stored = f"duckdb:{folder / 'd.duckdb'}"
    return {
        "CRLF": (folder / "crlf.csv", {}),
        "LF": (folder / "lf.csv", {}),
        "BOM": (folder / "bom.csv", {}),
        "read otherwise": (folder / "crlf.csv", {"null": "NA"}),
        "Parquet": (folder / "p.parquet", {}),
        "Parquet, packed otherwise": (folder / "packed.parquet", {}),
        "Arrow": (table, {}),
        "Arrow, large and reordered": (table.take(list(range(299, -1, -1))).cast(LARGE), {}),
        "dictionary": (table.set_column(0, "pid", table["pid"].dictionary_encode()), {}),
        "pandas": (pd.read_csv(folder / "crlf.csv"), {}),
        "pandas, floats": (table.to_pandas().astype({"age": float}), {}),
        "DuckDB": (stored, {"table": "people"}),
        "DuckDB, wider": (stored, {"table": "wider"}),
        "DuckDB, a view": (stored, {"table": "most"}),
    }


LARGE = pa.schema([("pid", pa.large_string()), ("age", pa.int16())])


@pytest.mark.parametrize("first", ["CRLF", "Parquet", "Arrow", "DuckDB"])
def test_the_same_people_in_every_form_are_told(tmp_path: Path, first: str) -> None:
    forms = make_forms(tmp_path)
    told = 0
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        source, how = forms[first]
        assert release(ledger, source, "first", **how) == "released"
        for source, how in forms.values():
            said = release(ledger, source, "second", **how)
            assert 'account = "first"' in said
            told += "individuals of this table have the same keys as individuals of the account 'first'" in said
        assert ledger.datasets() == ("first",)
    assert told >= 6  # the others have the very bytes or rows, and are refused by these


def test_a_table_of_postgresql_and_its_export_hold_the_same_people(
    create_database: Callable[[], str], tmp_path: Path
) -> None:
    import psycopg

    url = create_database()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE people (pid char(8), age int)")
        connection.execute("INSERT INTO people SELECT 'P' || n, n FROM generate_series(1, 40) n")
    exported = pa.table({"pid": [f"p{at}" for at in range(21, 61)], "age": [30] * 40})
    expected = "20 of 40 individuals of this table have the same keys as individuals of the account 'first'"
    for at, (one, other) in enumerate(
        [((url, {"table": "people"}), (exported, {})), ((exported, {}), (url, {"table": "people"}))]
    ):
        with Ledger.open(tmp_path / f"{at}.db") as ledger:
            assert release(ledger, one[0], "first", **one[1]) == "released"
            assert expected in release(ledger, other[0], "second", **other[1])


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ([7, 8, 9], "integer"),
        ([7.0, 8.0, 9.0], "integer"),
        (["7", "8", "9"], "text"),
        (["007", "008", "009"], "text"),
        (["7.0", "8.0", "9.0"], "text"),
        ([" 7", "8 ", "9"], "text"),
    ],
)
def test_a_key_is_known_again_in_another_type(ledger: Ledger, keys: list[object], kind: str) -> None:
    assert release(ledger, table_of(9, 8, 1000, ages=3), "first", "integer") == "released"
    assert release(ledger, table_of(*keys), "second", kind).startswith("2 of 3 individuals of this table have")


def test_other_people_are_not_spoken_of(ledger: Ledger) -> None:
    for at, keys in enumerate((("a", "b"), ("c", None, "d"), (1, 10, 100), ("e",))):
        kind = "integer" if keys[0] == 1 else "text"
        assert release(ledger, table_of(*keys), f"n{at}", kind) == "released"
    plain = {key: value for key, value in facts("rows").items() if key not in ("row_key", "max_rows_per_unit")}
    with Dataset.open(
        table_of("a", "b", ages=7), schema=plain | {"unit": "row"}
    ) as dataset:  # nothing tells whose rows
        assert dataset.release(COUNT.format("rows"), ledger=ledger, epsilon=1, policy="budget:1").status == "released"


# ---------------------------------------------------------------- the controller's answers


def test_the_controller_says_that_they_are_others(ledger: Ledger) -> None:
    """It is on record, and is not asked again when either account goes on."""
    assert release(ledger, table_of("a", "b"), "first") == "released"
    assert "other_people=True" in release(ledger, table_of("b", "c"), "second")
    assert release(ledger, table_of("b", "c"), "second", other_people=True) == "released"
    assert release(ledger, table_of("b", "c", "a"), "second", continued=True) == "released"
    assert release(ledger, table_of("a", "b", "c", ages=7), "first", continued=True) == "released"
    assert release(ledger, table_of("c"), "third").startswith("1 of 1 individuals")
    records = export_records(ledger)
    assert [each["payload"]["apart"] for each in records if each["kind"] == "account"] == [[], ["first"]]
    assert ledger.verify().intact


def test_the_controller_says_that_they_are_the_same(ledger: Ledger) -> None:
    assert release(ledger, table_of("a", "b"), "first") == "released"
    said = release(ledger, table_of("b", "c"), "second")
    assert 'account = "first"' in said
    assert "continued=True" in said
    account_of = {"account": "first"}
    assert release(ledger, table_of("b", "c"), "second", continued=True, schema=account_of) == "released"
    assert known(ledger.account("first")).reading.epsilon == 2


def test_going_on_with_somebody_elses_people_is_told_and_remembered(ledger: Ledger) -> None:
    assert release(ledger, table_of("a", "b"), "first") == "released"
    assert release(ledger, table_of("c"), "second") == "released"
    assert release(ledger, table_of("c", "a"), "second", continued=True).startswith("1 of 2 individuals")
    assert release(ledger, table_of("c", "a"), "second", continued=True, other_people=True) == "released"
    for at in range(70):  # past a checkpoint
        ledger.record_view("second", f"digest-{at}", "risk")
    assert release(ledger, table_of("c", "a", "d"), "second", continued=True) == "released"
    assert release(ledger, table_of("d"), "third").startswith("1 of 1 individuals")  # it holds all it ever held
    assert ledger.verify().intact


def test_two_first_releases_at_once_do_not_both_open_an_account(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second account is opened while the first is being measured: the ledger compares once more."""
    with Dataset.open(table_of("a", "b"), schema=facts("slow")) as dataset:
        still = dataset.engine.is_still

        def interfere(digest: str) -> bool:
            assert release(ledger, table_of("b", "c"), "fast") == "released"
            return still(digest)

        monkeypatch.setattr(dataset.engine, "is_still", interfere)
        with pytest.raises(LedgerError, match=r"1 of 2 individuals .* account 'fast'"):
            dataset.release(COUNT.format("slow"), ledger=ledger, epsilon=1, policy="budget:1")
        assert ledger.datasets() == ("fast",)


# ---------------------------------------------------------------- what is kept, and who can see it


def test_digests_are_in_nothing_that_leaves_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        with Dataset.open(table_of("a", "b"), schema=facts("first")) as dataset:
            answer = dataset.release(COUNT.format("first"), ledger=ledger, epsilon=1, policy="budget:1")
        entry = known(ledger.entry(answer.entry or ""))
        key, account = ledger.people_key(), ledger.account("first")
        pages = [write_record(entry, account, ledger.verify(), controller=each) for each in (False, True)]
        told = [
            json.dumps(export_records(ledger)),
            json.dumps(ledger.describe()),
            json.dumps(answer.describe()),
            *pages,
        ]
        with sqlite3.connect(path) as raw:
            (digests,) = raw.execute("SELECT digests FROM dosimeter_ledger_people WHERE dataset = 'first'").fetchone()
        hidden = [key, digests, *(str(each) for each in People.from_text(digests).digests)]
        assert len(hidden) == 4
        for text in told:
            assert not any(each in text for each in hidden)
    with Ledger.open(tmp_path / "other.db") as other:
        assert other.people_key() != key  # the digests of two ledgers cannot be compared


def test_digests_can_be_erased_and_a_ledger_without_them_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        assert release(ledger, table_of("a", "b"), "first") == "released"
        for statement in ("DELETE FROM dosimeter_ledger_people", "DROP TABLE dosimeter_ledger_people"):
            with sqlite3.connect(path) as raw:
                raw.execute(statement)
            assert ledger.verify().intact
            name = f"after_{statement[:4].lower()}"
            assert release(ledger, table_of("a", "b", statement), name) == "released"
        assert "account 'after_drop'" in release(ledger, table_of("a"), "last")


def test_damaged_digests_are_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        assert release(ledger, table_of("a"), "first") == "released"
        for damage in ("no base64!", "AAAA"):
            with sqlite3.connect(path) as raw:
                raw.execute("UPDATE dosimeter_ledger_people SET digests = ? WHERE dataset = 'first'", [damage])
            assert "digests of individuals are damaged" in release(ledger, table_of("b"), "second")


def test_a_table_that_cannot_be_read_is_not_refused_but_stopped(ledger: Ledger, tmp_path: Path) -> None:
    """Whether the keys can be read depends on the data, so it must not show as a refusal of one request (N4)."""
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff\xfe"], pa.binary()).buffers())
    pq.write_table(pa.table({"pid": broken, "age": [1, 2]}), tmp_path / "t.parquet")
    with Dataset.open(tmp_path / "t.parquet", schema=facts("t")) as dataset:
        with pytest.raises(DatasetStopped):
            dataset.release("SELECT COUNT(*) FROM t WHERE pid > 'a'", ledger=ledger, epsilon=1, policy="budget:1")
        assert ledger.stopped("t") is not None


# ---------------------------------------------------------------- samples


def test_a_sample_is_compared_as_everybody_would_be(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against whole sets: of those with a digest up to the smaller limit, it finds exactly who is in both."""
    monkeypatch.setattr(kept_people, "MOST_KEPT", 200)
    chance = random.Random(11)
    exact = 0
    with Ledger.open(target) as ledger:
        for _ in range(12):
            sizes = [chance.choice([20, 199, 200, 900, 4000]) for _ in range(3)]
            whole = [{chance.getrandbits(64) for _ in range(size)} for size in sizes]
            whole[1] |= set(chance.sample(sorted(whole[0]), chance.choice([0, 1, 15])))
            one, other, third = (keep(each) for each in whole)
            assert one.join(third) == keep(whole[0] | whole[2])
            assert People.from_text(one.to_text()) == one
            with ledger._store.writing() as transaction:
                transaction.write_people("other", other.to_text())
                found = compare_people(transaction, "one", one)
            limit = min(2**64 if len(each) < 200 else sorted(each)[199] for each in whole[:2])
            compared = {each for each in whole[0] if each <= limit}
            shared = len(compared & whole[1])
            everybody = limit == 2**64
            exact += everybody and shared > 0
            expected = (SharedPeople("other", shared, len(compared), everybody=everybody),) if shared else ()
            assert found == expected
    assert exact


def keep(digests: set[int]) -> People:
    return People(frozenset(sorted(digests)[:200]))


def test_many_people_are_compared_by_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kept_people, account_terms):
        monkeypatch.setattr(module, "MOST_KEPT", 50)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert release(ledger, table_of(*range(1000)), "first", "integer") == "released"
        said = release(ledger, table_of(*range(500, 1500)), "second", "integer")
    shared, compared = map(int, said.split(" individuals of this table that were compared")[0].split(" of "))
    # Up to the smaller of two 50th digests lie all 50 of one table or the other, each in both with chance 1/2.
    # In 20,000 simulated pairs of tables at least 27 were compared, and never none or all of them were shared.
    assert 20 <= compared <= 50
    assert 0 < shared < compared


# ---------------------------------------------------------------- public here, private there


PLANES = {"tail": {"type": "integer"}, "seats": {"type": "integer", "bounds": [0, 500]}}


def test_a_table_is_not_public_in_one_account_and_private_in_another(ledger: Ledger, tmp_path: Path) -> None:
    """Whichever comes first. Mended, both spend one budget."""
    planes = tmp_path / "planes.csv"
    planes.write_text("tail,seats\n" + "".join(f"{at},{at * 7 % 300}\n" for at in range(20)))
    flights = pa.table({"pid": ["a", "b"], "age": [1, 2]})
    public = {"planes": {"public": True, "key": "tail", "source": str(planes), "columns": PLANES}}
    private = {"planes": {"unit": "tail", "max_rows_per_unit": 1, "source": str(planes), "columns": PLANES}}
    own = {"unit": "tail", "row_key": "tail", "columns": PLANES}
    assert release(ledger, flights, "flights", schema={"tables": public}) == "released"
    for at in range(70):  # past a checkpoint
        ledger.record_view("flights", f"digest-{at}", "risk")
    said = release(ledger, planes, "planes", schema=own)
    assert "A schema of the account 'flights' declares a table of these data public" in said
    assert 'account = "flights"' in said
    assert release(ledger, flights, "flights", schema={"tables": private}, continued=True) == "released"
    account = {**own, "account": "flights"}
    assert release(ledger, planes, "planes", schema=account, continued=True) == "released"
    assert ledger.datasets() == ("flights",)
    assert ledger.verify().intact
