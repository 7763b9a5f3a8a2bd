"""The audit log: chained, append-only, checked from outside; and what goes into it."""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from dosimeter.cli import main
from dosimeter.errors import LedgerError, OptionError
from dosimeter.ledger import Ledger
from dosimeter.web.store.audit_log import check_audit, export_audit, note
from dosimeter.web.store.database import _MIGRATIONS, Database
from dosimeter.web.store.tables import AUDIT
from tests.web.test_web_trail import count_actions, read_trail
from tests.web.web_site import Guest, Site, find_user, write_configuration


@pytest.fixture
def opened(database: str) -> Iterator[Database]:
    """A database of either kind, with the web's tables and five records in the log."""
    found = Database(database)
    found.migrate()
    for number in range(4):
        note(found, "carol", f"act {number}", dataset="clinic" if number else None, detail='ε "quoted" 日本')
    yield found
    found.close()


def read_rows(database: Database) -> list[dict[str, Any]]:
    with database.reading() as connection:
        return [dict(row) for row in connection.execute(sa.select(AUDIT).order_by(AUDIT.c.id)).mappings()]


def execute(database: Database, *statements: str) -> None:
    with database.writing() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def drop_guards(database: Database) -> None:
    """What an attacker with the rights of the operator would do first."""
    if database.is_sqlite:
        execute(database, *(f"DROP TRIGGER web_audit_{name}" for name in ("no_update", "no_delete", "in_order")))
    else:
        names = ("in_order", "no_change", "no_truncate")
        execute(database, *(f"DROP TRIGGER web_audit_{name} ON web_audit" for name in names))


def seal(*fields: object) -> str:
    """Compute a record's digest once more, from what the format says: a JSON array of every other field."""
    text = json.dumps(["dosimeter-audit-record", 1, *fields], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# ---------------------------------------------------------------- the chain


def test_every_record_holds_the_digest_of_the_one_before(opened: Database) -> None:
    previous = "0" * 64
    for number, row in enumerate(read_rows(opened), start=1):
        fields = [row[name] for name in ("id", "at", "user", "action", "dataset", "query_id", "detail")]
        assert (row["id"], row["previous"], row["digest"]) == (number, previous, seal(*fields, previous))
        previous = row["digest"]
    assert number == 5
    checked = check_audit(opened)
    assert (checked.intact, checked.records, checked.head) == (True, 5, previous)


def test_several_workers_at_once_keep_one_chain(opened: Database) -> None:
    """Each with a database object of its own, as the server and `dosimeter user` have."""

    def write(name: str) -> None:
        with closing(Database(opened.target)) as worker:
            for number in range(15):
                note(worker, name, f"act {number}")

    names = ("w0", "w1", "w2", "w3")
    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(write, names))
    rows = read_rows(opened)
    for name in names:
        assert [row["action"] for row in rows if row["user"] == name] == [f"act {number}" for number in range(15)]
    checked = check_audit(opened)
    assert (checked.intact, checked.records) == (True, 65)


CHANGES = {
    "a word": ("UPDATE web_audit SET detail = 'other' WHERE id = 3", 3),
    "one left out": ("DELETE FROM web_audit WHERE id = 3", 3),
    "the first left out": ("DELETE FROM web_audit WHERE id = 1", 1),
    "all left out": ("DELETE FROM web_audit", 1),
    "a number": ("UPDATE web_audit SET id = 9 WHERE id = 5", 5),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_altered_is_found(opened: Database, change: str) -> None:
    statement, bad = CHANGES[change]
    drop_guards(opened)
    execute(opened, statement)
    checked = check_audit(opened)
    assert not checked.intact
    assert checked.first_bad is not None
    assert checked.first_bad[0] == bad
    if change != "all left out":
        with pytest.raises(LedgerError, match=f"altered at record {bad}"), Path("/dev/null").open("w") as nowhere:
            export_audit(opened, nowhere)


def test_a_record_that_was_sealed_anew_does_not_fit_in(opened: Database) -> None:
    """Even with its digest computed as it should be."""
    drop_guards(opened)
    row = read_rows(opened)[2]
    kept = [row[name] for name in ("id", "at", "user", "action", "dataset", "query_id")]
    digest = seal(*kept, "forged", row["previous"])
    execute(opened, f"UPDATE web_audit SET detail = 'forged', digest = '{digest}' WHERE id = 3")
    assert check_audit(opened).first_bad == (4, "it does not follow the record before it")


def test_a_tail_that_was_cut_off_shows_by_the_head(opened: Database) -> None:
    head = check_audit(opened).head
    assert check_audit(opened, head).intact
    drop_guards(opened)
    execute(opened, "DELETE FROM web_audit WHERE id >= 4")
    assert check_audit(opened).intact  # nobody can tell from what is left
    cut = check_audit(opened, head)
    assert not cut.intact
    assert cut.first_bad is not None
    assert "the tail was cut off" in cut.first_bad[1]
    with pytest.raises(OptionError, match="64 hexadecimal digits"):
        check_audit(opened, "abc")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE web_audit SET detail = 'other' WHERE id = 3",
        "DELETE FROM web_audit WHERE id = 3",
        "DELETE FROM web_audit",
        "INSERT INTO web_audit VALUES (99, 'now', 'x', 'x', NULL, NULL, '', 'a', 'b')",
        "INSERT INTO web_audit VALUES (6, 'now', 'x', 'x', NULL, NULL, '', 'a', 'b')",
    ],
)
def test_the_database_refuses_what_only_adds_are_for(opened: Database, statement: str) -> None:
    with pytest.raises(sa.exc.DBAPIError, match="append-only"):
        execute(opened, statement)
    other = "INSERT OR REPLACE INTO web_audit SELECT 3, at, 'x', action, dataset, query_id, detail, previous, digest "
    other += "FROM web_audit WHERE id = 3" if opened.is_sqlite else ""
    with pytest.raises(sa.exc.DBAPIError, match="append-only"):
        execute(opened, other if opened.is_sqlite else "TRUNCATE web_audit")
    assert check_audit(opened).records == 5


def test_text_that_is_no_text_is_found(tmp_path: Path) -> None:
    with closing(Database(str(tmp_path / "site.db"))) as database:
        database.migrate()
        drop_guards(database)
        execute(database, "UPDATE web_audit SET detail = CAST(x'ff' AS TEXT)")
        assert check_audit(database).first_bad == (1, "its detail is not valid text")


# ---------------------------------------------------------------- records from before


def migrate_to(database: Database, revision: str, *, down: bool = False) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    with database.writing() as connection:
        config.attributes["connection"] = connection
        (command.downgrade if down else command.upgrade)(config, revision)


def test_records_from_before_are_chained_as_they_were_found(database: str) -> None:
    with closing(Database(database)) as opened:
        migrate_to(opened, "0002")
        old = [
            (number, f"2026-01-{number:02}T00:00:00.000000Z", "anna", f"act {number}", None, "q", "ε")
            for number in (1, 2, 3, 7, 8, 21)  # a sequence has gaps
        ]
        insert = sa.text("INSERT INTO web_audit VALUES (:a, :b, :c, :d, :e, :f, :g)")
        with opened.writing() as connection:
            connection.execute(insert, [dict(zip("abcdefg", row, strict=True)) for row in old])
        opened.migrate()
        rows = read_rows(opened)
        assert [row["id"] for row in rows] == list(range(1, 8))
        assert (rows[0]["user"], rows[0]["action"]) == ("server", "began the chain")
        assert rows[0]["detail"] == "6 records from before follow, as they were found"
        names = ("at", "user", "action", "dataset", "query_id", "detail")
        assert [tuple(row[name] for name in names) for row in rows[1:]] == [row[1:] for row in old]
        note(opened, "carol", "went on")
        assert check_audit(opened).intact
        with pytest.raises(sa.exc.DBAPIError, match="append-only"):
            execute(opened, "DELETE FROM web_audit")
        migrate_to(opened, "0002", down=True)
        with opened.reading() as connection:
            left = connection.execute(sa.text("SELECT action FROM web_audit ORDER BY id")).scalars().all()
        assert left[0] == "began the chain"
        assert left[-1] == "went on"
        opened.migrate()
        assert check_audit(opened).intact


# ---------------------------------------------------------------- the commands


def test_audit_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An export that fails leaves the earlier one; a ledger without a log is told apart."""
    config, target, log = (str(tmp_path / name) for name in ("dosimeter.toml", "site.db", "log.jsonl"))
    write_configuration(tmp_path)
    assert main(["audit", "verify", "--config", config]) == 2
    assert "There is no ledger" in capsys.readouterr().err
    assert main(["user", "add", "ada", "--role", "analyst", "--config", config]) == 0
    capsys.readouterr()
    assert main(["audit", "verify", "--config", config, "--json"]) == 0
    head = json.loads(capsys.readouterr().out)
    assert head["intact"]
    assert head["records"] == 2
    assert main(["audit", "verify", "--database", target, "--head", head["head"]]) == 0
    assert capsys.readouterr().out == f"Intact: 2 records. Head {head['head']}\n"
    assert main(["audit", "export", "--database", target]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["action"] for line in lines] == ["began the chain", "added a user"]
    assert lines[1]["digest"] == head["head"]
    assert main(["audit", "export", "--config", config, "-o", log]) == 0
    earlier = Path(log).read_text()
    assert len(earlier.splitlines()) == 2
    assert main(["audit", "verify"]) == 2
    assert main(["audit", "verify", "--config", config, "--database", target]) == 2
    assert "--config FILE, or --database L" in capsys.readouterr().err
    with closing(Database(target)) as database:
        drop_guards(database)
        execute(database, "UPDATE web_audit SET detail = 'eve, analyst' WHERE id = 2")
    assert main(["audit", "verify", "--config", config]) == 1
    assert "Not intact: record 2: its content does not match its digest" in capsys.readouterr().out
    assert main(["audit", "verify", "--config", config, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["first_bad"]["seq"] == 2
    assert main(["audit", "export", "--config", config, "-o", log]) == 2
    assert Path(log).read_text() == earlier
    assert not list(tmp_path.glob(".log*"))
    Ledger.open(tmp_path / "ledger.db").close()
    assert main(["audit", "verify", "--database", str(tmp_path / "ledger.db")]) == 2
    assert "holds no chained audit log" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["site.db", "dosimeter.toml", "secret", "clinic.csv", "clinic.toml", "linked.jsonl"])
def test_an_export_writes_over_nothing_that_the_server_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    config = str(write_configuration(tmp_path))
    assert main(["user", "add", "ada", "--role", "analyst", "--config", config]) == 0
    (tmp_path / "linked.jsonl").symlink_to("site.db")
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.suffix != ".db-shm"}
    capsys.readouterr()
    assert main(["audit", "export", "--config", config, "-o", str(tmp_path / name)]) == 2
    assert "would be overwritten" in capsys.readouterr().err
    assert {each: (tmp_path / each).read_bytes() for each in before} == before
    if name.endswith(".db"):
        assert main(["audit", "export", "--database", str(tmp_path / name), "-o", str(tmp_path / name)]) == 2
        assert main(["audit", "verify", "--config", config]) == 0


# ---------------------------------------------------------------- what is recorded


def test_reading_an_answer_is_on_record(site: Site, api: httpx.Client, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    anna.get(f"/queries/{query_id}")
    assert count_actions(site, "anna")["read an answer"] == 0
    carol.approve(query_id)
    for _ in range(3):
        anna.get("/queries")
    assert count_actions(site, "anna")["read an answer"] == 0  # the list shows none
    for _ in range(3):
        assert anna.get(f"/queries/{query_id}").status_code == 200
        anna.get(f"/queries/{query_id}/status")
    assert count_actions(site, "anna")["read an answer"] == 1
    for _ in range(3):
        api.get(f"/queries/{query_id}")
        api.get("/queries")
    assert count_actions(site, "anna")["read an answer"] == 2


def test_what_is_refused_is_on_record_once_per_session_and_page(site: Site, anna: Guest) -> None:
    for path in ("/queue", "/queue", "/decide/abc", "/decide/def", "/audit"):
        assert anna.get(path).status_code == 403
    assert anna.post("/sign-out", data={"csrf": "wrong"}).status_code == 403
    refused = [detail for who, action, detail in read_trail(site) if (who, action) == ("anna", "was refused")]
    assert refused == ["GET /queue", "GET /decide/{query_id}", "GET /audit", "POST /sign-out"]
    with site.guest("anna") as again:
        again.get("/queue")
    assert count_actions(site, "anna")["was refused"] == 5
    for address in ("127.0.0.1", "127.0.0.2"):  # from many addresses it is still one record
        with httpx.Client(transport=httpx.HTTPTransport(local_address=address)) as stranger:
            assert stranger.post(f"{site.url}/sign-in", data={"name": "a", "password": "b"}).status_code == 403
    nobody = [detail for who, action, detail in read_trail(site) if (who, action) == ("nobody", "was refused")]
    assert nobody == ["POST /sign-in, from 127.0.0.1"]


def test_use_of_a_token_is_on_record_once_a_day(
    site: Site, api: httpx.Client, anna: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dosimeter.web.identity import users

    assert "never" in anna.get("/me").text
    for _ in range(3):
        api.get("/datasets")
    assert [d for w, a, d in read_trail(site) if a == "used a token"] == ["test"]
    monkeypatch.setattr(users, "write_time", lambda: "2099-01-01T00:00:00.000000Z")
    for _ in range(3):
        api.get("/datasets")
    assert [d for w, a, d in read_trail(site) if a == "used a token"] == ["test"] * 2
    database = site.state.database
    assert users.list_tokens(database, find_user(database, "anna"))[0]["used_on"] == "2099-01-01"


def test_the_page_shows_the_head_and_finds_records(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    carol.get(f"/decide/{query_id}")

    def list_actions(**params: str) -> list[str]:
        page = carol.get("/audit", params=params)
        assert page.status_code == 200
        return re.findall(r'data-label="What">([^<]*)<', page.text)

    assert check_audit(site.state.database).head in carol.get("/audit").text
    assert list_actions(who="Anna") == ["asked", "signed in"]
    assert list_actions(text="RISK") == ["viewed risk"]
    assert list_actions(text=query_id) == ["viewed risk", "asked"]
    assert list_actions(text="%") == []
    assert list_actions(day="1999-01-01") == []
    assert list_actions(who="anna", text="sign") == ["signed in"]
    assert carol.get("/audit", params={"day": "x"}).status_code == 422


def test_earlier_records_are_found_under_the_same_conditions(site: Site, carol: Guest) -> None:
    for number in range(450):
        note(site.state.database, "zoe" if number % 2 else "yan", f"act {number}")
    seen: list[str] = []
    address = "/audit?who=zoe"
    while address:
        page = carol.get(address).text
        seen += re.findall(r'data-label="What">([^<]*)<', page)
        link = re.search(r'href="(/audit\?[^"]*before=[^"]*)"', page)
        address = html.unescape(link[1]) if link else ""
    assert seen == [f"act {number}" for number in reversed(range(450)) if number % 2]
