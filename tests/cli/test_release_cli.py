"""`dosimeter release` and `dosimeter ledger`: JSON to the letter, what people read, bad input that costs nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dosimeter.cli import main
from dosimeter.ledger import Ledger

SCHEMA = """
table = "shop"
individuals = 30
reviewed = true
[columns.city]
type = "category"
values = ["Bern", "Rome", "Ulm"]
[columns.paid]
type = "integer"
bounds = [0, 50]
[columns.weight]
type = "decimal"
bounds = [0, 10]
resolution = 0.1
"""
CITIES = ["Bern", "Rome"]
COUNT = "SELECT COUNT(*) AS n FROM shop WHERE paid > 20"
SOURCES = Path(__file__).parents[2] / "src"
NOBODY = 65534

Result = tuple[int, str, str]


class Shop:
    """A table, its schema and a ledger in one directory, and the command line over them."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str] | None) -> None:
        self.directory = directory
        self.data, self.schema = directory / "shop.csv", directory / "shop.toml"
        self.ledger = directory / "ledger.db"
        self._capsys = capsys
        self.write_data()
        self.schema.write_text(SCHEMA, encoding="utf-8")

    def write_data(self, last: str = "49", weight: str = "9.9") -> None:
        rows = [f"{CITIES[row % 2]},{row},{row % 10}.5" for row in range(24)]
        self.data.write_text("\n".join(["city,paid,weight", *rows, f"Rome,{last},{weight}"]) + "\n", encoding="utf-8")

    def words(self, sql: str, *options: str) -> list[str]:
        return ["release", str(self.data), sql, "--schema", str(self.schema), "--ledger", str(self.ledger), *options]

    def run(self, *words: str) -> Result:
        assert self._capsys is not None
        self._capsys.readouterr()
        status = main(list(words))
        captured = self._capsys.readouterr()
        return status, captured.out, captured.err

    def release(self, sql: str, *options: str) -> Result:
        return self.run(*self.words(sql, *options))

    def books(self) -> list[dict[str, Any]]:
        with Ledger.open(self.ledger, create=False) as ledger:
            assert ledger.verify().intact
            return list(ledger.describe()["datasets"])


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shop:
    return Shop(tmp_path, capsys)


# ---------------------------------------------------------------- what the analyst gets


def test_the_json_of_a_release_to_the_letter(shop: Shop) -> None:
    sql = "SELECT city, COUNT(*) AS n FROM shop GROUP BY city"
    status, out, err = shop.release(sql, "--epsilon", "1e9", "--policy", "budget:1e10", "--json")
    assert (status, err) == (0, "")
    assert out.count("\n") == 1
    document = json.loads(out)
    guarantee = document.pop("guarantee")
    assert list(json.loads(out)) == ["status", "answer", "epsilon", "epsilon_svt", "error_95", "guarantee"]
    assert document == {
        "status": "released",
        "answer": [{"city": "Bern", "n": 12}, {"city": "Rome", "n": 13}, {"city": "Ulm", "n": 0}],
        "epsilon": 1e9,
        "epsilon_svt": None,
        "error_95": [0.0],
    }
    assert guarantee.startswith("This answer is 1000000000-differentially private for each of the 30 individuals")


def test_the_json_of_algorithm_1(shop: Shop) -> None:
    status, out, _ = shop.release(COUNT, "--prefer", "ratio:0.5", "--policy", "paper", "--json")
    document = json.loads(out)
    assert status == 0
    assert list(document) == ["status", "answer", "epsilon", "epsilon_svt", "error_95", "guarantee"]
    assert [document[name] for name in ("epsilon", "epsilon_svt", "error_95")] == [None, None, None]
    assert type(document["answer"][0]["n"]) is int
    assert "withheld" in document["guarantee"]


def test_the_json_of_find_and_release(shop: Shop) -> None:
    options = ("--svt", "2", "--variance", "5", "--candidates", "1,0.5", "--policy", "budget:9", "--json")
    status, out, _ = shop.release(COUNT, *options)
    document = json.loads(out)
    assert status == 0
    assert document["epsilon"] == 1.0  # τ = 5 holds of every variance; noise of 15 scales has p < 1e-6
    assert document["epsilon_svt"] == 2.0
    assert document["error_95"] == [3.0]
    assert "3-differentially private" in document["guarantee"]


@pytest.mark.parametrize("json_option", [(), ("--json",)])
def test_a_denial_says_nothing(shop: Shop, json_option: tuple[str, ...]) -> None:
    """Too expensive, or a NaN in a measured column: the same two words, and status 1."""
    shop.release(COUNT, "--epsilon", "0.5", "--policy", "budget:1")
    expensive = shop.release(COUNT, "--epsilon", "0.6", *json_option)
    shop.write_data(weight="nan")
    sql = "SELECT SUM(weight) FROM shop"
    unusable = shop.release(sql, "--epsilon", "0.1", "--continue", *json_option)
    shop.schema.write_text(SCHEMA.replace("individuals = 30", "individuals = 20"), encoding="utf-8")
    crowded = shop.release(COUNT, "--epsilon", "0.1", "--continue", *json_option)
    for status, out, _ in (expensive, unusable, crowded):
        assert status == 1
        assert out == ('{"status": "denied"}\n' if json_option else "Denied.\n")
    assert expensive == unusable == crowded
    (account,) = shop.books()
    assert account["epsilon"] == 0.5
    assert [entry["charge"] for entry in account["entries"]] == [0.5, 0.0, 0.0, 0.0]


def test_what_people_read(shop: Shop) -> None:
    sql = "SELECT city, COUNT(*) AS n, AVG(paid) AS mean FROM shop GROUP BY city"
    status, out, err = shop.release(sql, "--epsilon", "1e9", "--policy", "budget:1e10")
    assert (status, err) == (0, "")
    assert "ε = 1000000000. 95 % error: n ± 0, mean ± " in out
    assert "differentially private" in out
    bern = next(line for line in out.splitlines() if line.startswith("Bern"))
    assert bern.split() == ["Bern", "12", "11"]
    status, out, _ = shop.release(f"{sql} HAVING COUNT(*) > 1000", "--epsilon", "1e9")
    assert status == 0
    assert "No group is left" in out


def test_the_same_command_again(shop: Shop) -> None:
    words = ("--epsilon", "0.5", "--policy", "budget:2", "--json")
    first = shop.release(COUNT, *words)
    assert shop.release(COUNT, *words) == first
    assert shop.release(COUNT, "--epsilon", "0.5", "--json", "--analyst", "ada") == first
    assert len(shop.books()[0]["entries"]) == 1
    shop.release(COUNT, *words, "--again")
    assert shop.books()[0]["epsilon"] == 1.0


def test_who_and_what_for_are_on_record(shop: Shop) -> None:
    shop.release(COUNT, "--epsilon", "0.5", "--policy", "paper", "--analyst", "Ada", "--purpose", "year report")
    status, out, _ = shop.run("ledger", str(shop.ledger), "export")
    assert status == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["kind"] for line in lines] == ["account", "reserve", "settle"]
    request = lines[1]["payload"]["request"]
    assert (request["analyst"], request["purpose"], request["query"]) == ("Ada", "year report", COUNT)
    assert lines[2]["payload"]["measured"] == [[str(lines[2]["payload"]["answer"]["rows"][0][0])]]


def test_the_query_from_a_file_and_from_standard_input(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    (shop.directory / "q.sql").write_text(COUNT, encoding="utf-8")
    options = ("--epsilon", "0.5", "--policy", "paper", "--json")
    first = shop.release(f"@{shop.directory / 'q.sql'}", *options)
    monkeypatch.setattr(sys, "stdin", io.StringIO(COUNT))
    assert shop.release("-", *options) == first  # the same query, from the ledger


# ---------------------------------------------------------------- the dry run


def test_the_dry_run_in_json(shop: Shop) -> None:
    options = ("--svt", "1", "--variance", "0.01", "--policy", "budget:20", "--dry-run", "--json")
    status, out, _ = shop.release(COUNT, *options)
    document = json.loads(out)
    assert status == 0
    assert document["dry_run"] is True
    assert len(document["candidates"]) == 37
    total = document["denial"] + sum(line["probability"] for line in document["candidates"])
    assert total == pytest.approx(1.0)
    assert shop.books() == []


def test_the_dry_run_for_people(shop: Shop) -> None:
    options = ("--svt", "1", "--variance", "0.01", "--policy", "budget:20", "--dry-run")
    status, out, _ = shop.release(COUNT, *options)
    assert status == 0
    assert "nothing charged, nothing released" in out
    assert "Denied with probability" in out
    assert "e-" not in out.split("The released ε violates")[1].split("%")[0]  # no 8.3e-142 %
    status, out, _ = shop.release(COUNT, "--epsilon", "3", "--policy", "budget:2", "--dry-run")
    assert status == 1
    assert "would be denied: 0 of budget:2 is spent; this needs 3, 2 is left." in out
    assert shop.books() == []


@pytest.mark.parametrize(
    "way",
    [("--epsilon", "0.5"), ("--prefer", "ratio:0.5"), ("--svt", "1", "--variance", "50", "--candidates", "0.5")],
    ids=["fixed", "find", "find-and-release"],
)
def test_the_dry_run_of_what_was_answered(shop: Shop, way: tuple[str, ...]) -> None:
    """Nothing is left of the budget, and it is granted all the same: it costs nothing."""
    budget = {"--epsilon": "0.5", "--prefer": "1", "--svt": "1.5"}[way[0]]
    _, released, _ = shop.release(COUNT, *way, "--policy", f"budget:{budget}", "--json")
    status, out, _ = shop.release(COUNT, *way, "--dry-run", "--json")
    document = json.loads(out)
    assert (status, document["repeated"], document["cost"]["charge"]) == (0, True, 0.0)
    assert document["analyst_sees"] == json.loads(released)
    status, out, _ = shop.release(COUNT, *way, "--dry-run")
    assert status == 0
    assert "Already answered: the analyst gets the same numbers again, from the ledger. Cost: 0." in out
    assert "denied" not in out
    status, out, _ = shop.release(COUNT.replace("20", "10"), *way, "--dry-run", "--json")
    assert status == 1
    assert "0 is left" in json.loads(out)["reason"]


def test_the_dry_run_says_that_it_leaves_a_mark(shop: Shop) -> None:
    _, out, _ = shop.release(COUNT, "--epsilon", "1", "--policy", "budget:2", "--dry-run")
    assert "That this was looked at is recorded and will stand in the guarantee of new answers to this query." in out
    _, out, _ = shop.release(COUNT, "--prefer", "ratio:0.5", "--policy", "budget:2", "--dry-run")
    assert "That this was looked at is recorded.\n" in out


def test_the_controller_is_told_what_was_charged(shop: Shop) -> None:
    """On standard error, for people only: standard output is the analyst's."""
    assert shop.release(COUNT, "--epsilon", "0.5", "--policy", "budget:9")[2] == ""
    status, _, err = shop.release(COUNT, "--epsilon", "0.5")
    assert status == 0
    assert "answered before" in err
    assert "it cost nothing" in err
    status, out, err = shop.release(COUNT, "--epsilon", "0.4")
    assert status == 0
    assert "with other settings" in err
    assert "This is a new charge." in err
    assert "other settings" not in out
    assert shop.release(COUNT, "--epsilon", "0.4", "--again")[2] == ""
    assert shop.release(COUNT, "--epsilon", "0.4", "--json")[2] == ""
    assert shop.release(COUNT, "--epsilon", "0.3", "--json")[2] == ""
    assert shop.books()[0]["epsilon"] == 1.6


def test_the_books_for_people(shop: Shop) -> None:
    shop.release(COUNT, "--epsilon", "0.9", "--policy", "budget:1", "--analyst", "Ada", "--purpose", "year report")
    _, out, _ = shop.run("ledger", str(shop.ledger))
    assert "0.9 of 1 spent, 0.1 left" in out
    assert "Ada" in out
    assert "year report" in out
    entry = shop.books()[0]["entries"][0]
    assert (entry["analyst"], entry["purpose"]) == ("Ada", "year report")


def test_round_numbers_are_written_out(shop: Shop) -> None:
    """10 and 200, nowhere 1E+1 or 2E+2: for people, in messages and in the records."""
    texts: list[str] = []
    for words in (
        ("--epsilon", "10", "--policy", "budget:200", "--max-epsilon", "100"),
        ("--epsilon", "20", "--dry-run"),
        ("--epsilon", "200", "--dry-run"),
        ("--epsilon", "100", "--policy", "budget:300"),
        ("--epsilon", "100", "--max-epsilon", "40"),
        ("--epsilon", "100", "--candidates", "100,10"),
        ("--epsilon", "100", "--again"),
        ("--epsilon", "100", "--again", "--dry-run"),
    ):
        texts += shop.release(COUNT, *words)[1:]
    for action in ([], ["export"], ["--json"]):
        texts += shop.run("ledger", str(shop.ledger), *action)[1:]
    shop.ledger.unlink()
    searching = ("--svt", "20", "--variance", "50", "--candidates", "100,10", "--policy", "budget:300")
    texts += shop.release(COUNT, *searching)[1:]
    texts += shop.run("ledger", str(shop.ledger), "export")[1:]
    for text in texts:
        assert not re.search(r"\dE[+-]?\d", text)
    assert any("110 of budget:200 is spent; this needs 100, 90 is left." in text for text in texts)


def test_a_dry_run_first_is_told_in_the_guarantee(shop: Shop) -> None:
    shop.release(COUNT, "--epsilon", "0.5", "--policy", "paper", "--dry-run")
    _, out, _ = shop.release(COUNT, "--epsilon", "0.5", "--policy", "paper", "--json")
    assert json.loads(out)["guarantee"].endswith("was looked at before.")


# ---------------------------------------------------------------- bad input


FIXED = ("--epsilon", "0.5", "--policy", "paper")
BAD: list[tuple[str, tuple[str, ...], str]] = [
    ("observed groups", ("--groups", "observed", *FIXED), "which groups exist is private"),
    ("a sensitivity by hand", ("--sensitivity", "1", *FIXED), "given by hand"),
    ("the classic Gaussian", ("--mechanism", "gaussian", "--calibration", "classic", *FIXED), "Use zcdp"),
    ("recomputing", ("--method", "recompute", *FIXED), "closed form"),
    ("no policy", ("--epsilon", "0.5"), "--policy paper, or --policy budget:E"),
    ("an unknown policy", ("--epsilon", "0.5", "--policy", "free"), "Unknown policy"),
    ("a budget of nothing", ("--epsilon", "0.5", "--policy", "budget:0"), "larger than 0"),
    ("epsilon 0", ("--epsilon", "0", "--policy", "paper"), "--epsilon must be a positive number"),
    ("a negative epsilon", ("--epsilon=-1", "--policy", "paper"), "--epsilon must be a positive number"),
    ("epsilon nan", ("--epsilon", "nan", "--policy", "paper"), "--epsilon must be a positive number"),
    ("an epsilon without finite noise", ("--epsilon", "1e-40", "--policy", "paper"), "larger epsilon"),
    ("no way to an epsilon", ("--policy", "paper"), "exactly one way"),
    ("two ways to an epsilon", (*FIXED, "--prefer", "ratio:0.5"), "exactly one way"),
    ("svt without variance", ("--svt", "1", "--policy", "paper"), "go together"),
    ("variance without svt", ("--variance", "1", "--policy", "paper"), "go together"),
    ("svt out of range", ("--svt", "1e-9", "--variance", "1", "--policy", "paper"), "must lie between"),
    (
        "svt and the exact indicator",
        ("--svt", "1", "--variance", "1", "--indicator", "exact", "--policy", "paper"),
        "bound",
    ),
    ("a preference that is none", ("--prefer", "rdr", "--policy", "paper"), "rdr"),
    ("candidates that are none", ("--prefer", "ratio:0.5", "--candidates", "1,x", "--policy", "paper"), "'x'"),
    ("delta with Laplace", ("--delta", "0.1", *FIXED), "--mechanism gaussian"),
    ("a cap of nothing", (*FIXED, "--max-epsilon", "0"), "larger than 0"),
    ("delta_total of 2", (*FIXED, "--delta-total", "2"), "larger than 1"),
]


@pytest.mark.parametrize(("options", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_costs_nothing(shop: Shop, options: tuple[str, ...], message: str) -> None:
    for extra in ((), ("--json",)):
        status, out, err = shop.release(COUNT, *options, *extra)
        assert (status, out) == (2, "")
        assert message in err
        assert err.startswith("dosimeter: ")
        assert err.count("\n") == 1
        assert "Traceback" not in err
    assert not shop.ledger.exists() or shop.books() == []


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM shop", "SELECT *"),
        ("SELECT SUM(paid) FROM elsewhere", "There is no table elsewhere"),
        ("SELECT MEDIAN(paid) FROM shop", "cannot be found privately"),
        ("DROP TABLE shop", "Only SELECT"),
    ],
)
def test_queries_that_cannot_be_released(shop: Shop, sql: str, message: str) -> None:
    status, out, err = shop.release(sql, "--svt", "1", "--variance", "1", "--policy", "paper")
    assert (status, out) == (2, "")
    assert message in err
    assert shop.books() == []


def test_a_schema_that_backs_nothing(shop: Shop) -> None:
    shop.schema.write_text(SCHEMA.replace("reviewed = true", "reviewed = false"), encoding="utf-8")
    status, out, err = shop.release(COUNT, *FIXED)
    assert (status, out) == (2, "")
    assert "reviewed schema" in err
    shop.schema.write_text(SCHEMA.replace("individuals = 30\n", ""), encoding="utf-8")
    status, out, err = shop.release(COUNT, *FIXED)
    assert (status, out) == (2, "")
    assert "individuals" in err
    status, out, err = shop.run("release", str(shop.data), COUNT, "--ledger", str(shop.ledger), *FIXED)
    assert (status, out) == (2, "")
    assert "--schema FILE" in err
    assert not shop.ledger.exists() or shop.books() == []


def test_terms_that_contradict_the_account(shop: Shop) -> None:
    shop.release(COUNT, *FIXED)
    before = shop.books()
    for options, message in (
        (("--epsilon", "5", "--policy", "budget:9"), "was opened with --policy paper"),
        (("--epsilon", "5", "--max-epsilon", "9"), "was opened with no --max-epsilon"),
        (("--prefer", "ratio:0.1"), "opened for a fixed ε (--epsilon); this release asks for find, algorithm 1"),
        (("--svt", "1", "--variance", "1"), "--ledger with another file"),
    ):
        status, out, err = shop.release(COUNT, *options)
        assert (status, out) == (2, "")
        assert message in err
        assert shop.books() == before


def test_data_and_schemas_that_changed(shop: Shop) -> None:
    shop.release(COUNT, *FIXED)
    before = shop.books()
    shop.write_data(last="3")
    status, out, err = shop.release(COUNT, "--epsilon", "5")
    assert (status, out) == (2, "")
    assert "--continue" in err
    assert shop.books() == before
    status, _, _ = shop.release(COUNT, "--epsilon", "5", "--continue")
    assert status == 0
    assert shop.books()[0]["epsilon"] == 5.5
    shop.schema.write_text(SCHEMA.replace("bounds = [0, 50]", "bounds = [0, 60]"), encoding="utf-8")
    assert shop.release(COUNT, "--epsilon", "9")[0] == 2


def test_files_that_are_not_there(shop: Shop) -> None:
    shop.data.unlink()
    status, out, err = shop.release(COUNT, *FIXED)
    assert (status, out) == (2, "")
    assert "shop.csv" in err
    assert not shop.ledger.exists()


# ---------------------------------------------------------------- ledgers that cannot be used


def break_format(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP TRIGGER dosimeter_ledger_format_no_update")
        raw.execute("UPDATE dosimeter_ledger_format SET version = 99")
        raw.commit()


def break_kind(path: Path) -> None:
    """A sound record of a kind that does not exist yet."""
    from dosimeter.ledger import Record

    with Ledger.open(path) as ledger:
        head, records = ledger.verify().head, ledger.verify().records
    record = Record(records + 1, "shop", "transfer", 1, "2027-01-01T00:00:00Z", "", "{}", head, "")
    with closing(sqlite3.connect(path)) as raw:
        row = (record.seq, "shop", "transfer", 1, record.at, "", "{}", head, record.compute_digest())
        raw.execute("INSERT INTO dosimeter_ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        raw.commit()


def break_content(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP TRIGGER dosimeter_ledger_no_update")
        raw.execute("""UPDATE dosimeter_ledger SET payload = replace(payload, '"0.5"', '"0.1"')""")
        raw.commit()


@pytest.mark.parametrize(
    ("damage", "message"),
    [(break_format, "or a newer one"), (break_kind, "or a newer one"), (break_content, "was altered at record 2")],
)
def test_ledgers_that_cannot_be_trusted(shop: Shop, damage: Callable[[Path], None], message: str) -> None:
    shop.release(COUNT, *FIXED)
    damage(shop.ledger)
    content = shop.ledger.read_bytes()
    for words in (shop.words(COUNT, "--epsilon", "5"), shop.words(COUNT, *FIXED), ["ledger", str(shop.ledger)]):
        status, out, err = shop.run(*words)
        assert (status, out) == (2, "")
        assert message in err
    assert shop.ledger.read_bytes() == content


def test_a_file_that_is_no_ledger(shop: Shop) -> None:
    shop.ledger.write_text("a,b\n" * 400, encoding="utf-8")
    status, out, err = shop.release(COUNT, *FIXED)
    assert (status, out) == (2, "")
    assert "not a ledger" in err
    assert shop.ledger.read_text(encoding="utf-8") == "a,b\n" * 400
    status, _, err = shop.run("ledger", str(shop.directory / "none.db"))
    assert status == 2
    assert "no ledger" in err


IN_A_PROCESS = """
import json, os, resource, sys, tempfile
from pathlib import Path
from dosimeter.cli import main
words, warm, how = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
devnull = os.open(os.devnull, os.O_WRONLY)
kept = os.dup(1)
os.dup2(devnull, 1)
assert main(warm) == 0, "the first release"      # as root, so that every late import has happened
sys.stdout.flush()
os.dup2(kept, 1)
if how == "nobody" and os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
statuses = []
if how == "full":
    size = Path(words[words.index("--ledger") + 1]).stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
for _ in range(60 if how == "full" else 1):
    statuses.append(main(words))
    if statuses[-1]:
        break
sys.stdout.flush()
sys.stderr.write(json.dumps(statuses) + "\\n")
"""


@pytest.fixture
def open_shop() -> Iterator[Shop]:
    """In a directory that every user can reach, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="shop"))
    directory.chmod(0o755)
    yield Shop(directory, None)
    directory.chmod(0o755)
    shutil.rmtree(directory)


def run_in_a_process(words: list[str], warm: list[str], how: str) -> tuple[list[int], list[str], str]:
    """The statuses, the lines on standard output and the complaint."""
    result = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, json.dumps(words), json.dumps(warm), how],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    *complaint, statuses = result.stderr.splitlines()
    return json.loads(statuses), result.stdout.splitlines(), "\n".join(complaint)


@pytest.mark.parametrize("protected", ["file", "directory"])
def test_a_ledger_that_may_not_be_written(open_shop: Shop, protected: str) -> None:
    shop = open_shop
    assert main(shop.words(COUNT, *FIXED, "--json")) == 0
    warm = shop.words(COUNT, *FIXED, "--json")
    warm[warm.index(str(shop.ledger))] = str(shop.directory / "other.db")
    for path in (shop.ledger, shop.data, shop.schema):
        path.chmod(0o444 if protected == "file" else 0o644)
    if os.geteuid() == 0 and protected == "directory":
        os.chown(shop.ledger, NOBODY, NOBODY)
    if os.geteuid() != 0 and protected == "directory":
        pytest.skip(
            "the first release of the child needs a directory that it may write to, which only root can keep so"
        )
    before = shop.ledger.read_bytes()
    statuses, out, complaint = run_in_a_process(shop.words(COUNT, "--epsilon", "5", "--json"), warm, "nobody")
    assert (statuses, out) == ([2], [])
    assert "cannot be written to" in complaint
    assert shop.ledger.read_bytes() == before


def test_a_full_disk_never_gives_an_answer_that_is_not_on_record(open_shop: Shop) -> None:
    """Releases until nothing more fits: the one that fails prints nothing, and what was reserved for it counts."""
    shop = open_shop
    warm = shop.words(COUNT, "--epsilon", "0.5", "--policy", "budget:1000", "--json")
    words = shop.words(COUNT, "--epsilon", "0.25", "--again", "--json")
    statuses, out, complaint = run_in_a_process(words, warm, "full")
    assert statuses[-1] == 2
    assert statuses[:-1] == [0] * len(out)
    assert "ledger" in complaint
    assert "full" in complaint or "disk" in complaint
    (account,) = shop.books()
    released = [entry for entry in account["entries"][1:] if entry["status"] == "released"]
    assert [entry["answer"] for entry in released] == [json.loads(line)["answer"] for line in out]
    assert account["epsilon"] == 0.5 + 0.25 * (len(account["entries"]) - 1)
    assert len(account["entries"]) - 1 - len(released) in (0, 1)


# ---------------------------------------------------------------- the ledger


def test_the_json_of_the_ledger_to_the_letter(shop: Shop) -> None:
    _, released, _ = shop.release(COUNT, "--epsilon", "0.3", "--policy", "budget:0.35", "--json")
    shop.release(COUNT, "--epsilon", "0.06")
    status, out, _ = shop.run("ledger", str(shop.ledger), "--json")
    assert status == 0
    (account,) = json.loads(out)["datasets"]
    assert list(json.loads(out)) == ["datasets"]
    assert list(account) == ["dataset", "epsilon", "delta", "policy", "algorithm", "entries"]
    first, second = account.pop("entries")
    assert account == {"dataset": "shop", "epsilon": 0.3, "delta": 0.0, "policy": "budget:0.35", "algorithm": "fixed"}
    names = ["id", "at", "status", "epsilon", "epsilon_svt", "delta", "charge", "reading", "query", "answer"]
    assert list(first) == list(second) == [*names, "analyst", "purpose"]
    assert len(first.pop("id")) == 16
    assert first.pop("at").endswith("Z")
    assert first == {
        "status": "released", "epsilon": 0.3, "epsilon_svt": None, "delta": 0.0, "charge": 0.3, "reading": 0.3,
        "query": COUNT, "answer": json.loads(released)["answer"], "analyst": None, "purpose": None,
    }  # fmt: skip
    assert (second["status"], second["charge"], second["reading"], second["answer"]) == ("denied", 0.0, 0.3, None)


def test_the_ledger_for_people(shop: Shop) -> None:
    shop.release(COUNT, "--epsilon", "0.3", "--policy", "budget:2", "--max-epsilon", "1")
    status, out, _ = shop.run("ledger", str(shop.ledger))
    assert status == 0
    assert "shop: reading ε = 0.3" in out
    assert "policy budget:2, algorithm fixed, at most 1 per query" in out
    assert COUNT in out


def test_verify_and_its_head(shop: Shop) -> None:
    shop.release(COUNT, *FIXED)
    status, out, _ = shop.run("ledger", str(shop.ledger), "verify", "--json")
    document = json.loads(out)
    assert status == 0
    assert list(document) == ["intact", "records", "head"]
    assert (document["intact"], document["records"]) == (True, 3)
    shop.release(COUNT, "--epsilon", "0.7")
    status, out, _ = shop.run("ledger", str(shop.ledger), "verify", "--head", document["head"])
    assert status == 0
    assert out.startswith("Intact: 5 records. Head ")
    status, out, _ = shop.run("ledger", str(shop.ledger), "verify", "--json", "--head", "0" * 63 + "1")
    assert status == 1
    assert json.loads(out)["intact"] is False
    assert shop.run("ledger", str(shop.ledger), "verify", "--head", "abc")[0] == 2
    break_content(shop.ledger)
    status, out, _ = shop.run("ledger", str(shop.ledger), "verify", "--json")
    assert status == 1
    assert json.loads(out)["first_bad"] == {"seq": 2, "reason": "its content does not match its digest"}
    status, out, _ = shop.run("ledger", str(shop.ledger), "verify")
    assert status == 1
    assert out.startswith("Not intact: record 2")


def test_export_to_a_file(shop: Shop) -> None:
    shop.release(COUNT, *FIXED)
    lines = shop.directory / "records.jsonl"
    status, out, _ = shop.run("ledger", str(shop.ledger), "export", "-o", str(lines))
    assert (status, out) == (0, "")
    assert lines.read_text(encoding="utf-8") == shop.run("ledger", str(shop.ledger), "export")[1]
    assert shop.run("ledger", str(shop.ledger), "export", "-o", str(shop.directory / "no" / "x"))[0] == 2


def test_the_staircase(shop: Shop) -> None:
    shop.release(COUNT, *FIXED)
    shop.release(COUNT, "--epsilon", "0.7")
    picture = shop.directory / "stairs.svg"
    status, out, _ = shop.run("ledger", str(shop.ledger), "--plot", str(picture), "--json")
    assert status == 0
    assert json.loads(out)["datasets"][0]["epsilon"] == 1.2
    assert "1.2" in picture.read_text(encoding="utf-8")
    shop.schema.write_text(SCHEMA.replace('"shop"', '"store"'), encoding="utf-8")
    shop.write_data(last="1")
    shop.release(COUNT.replace("shop", "store"), *FIXED)
    status, _, err = shop.run("ledger", str(shop.ledger), "--plot", str(picture))
    assert status == 2
    assert "--dataset: shop, store" in err
    status, out, _ = shop.run("ledger", str(shop.ledger), "--plot", str(picture), "--dataset", "store", "--json")
    assert status == 0
    assert [account["dataset"] for account in json.loads(out)["datasets"]] == ["store"]
    assert shop.run("ledger", str(shop.ledger), "--dataset", "other")[0] == 2
    assert shop.run("ledger", str(shop.ledger), "--plot", str(shop.directory / "x.pdf"))[0] == 2


@pytest.mark.parametrize(
    "words", [("verify", "--plot", "x.svg"), ("show", "--head", "0"), ("show", "-o", "x"), ("verify", "--dataset", "x")]
)
def test_options_that_go_with_another_action(shop: Shop, words: tuple[str, ...]) -> None:
    shop.release(COUNT, *FIXED)
    status, out, err = shop.run("ledger", str(shop.ledger), *words)
    assert (status, out) == (2, "")
    assert "goes with" in err


# ---------------------------------------------------------------- looking with a ledger


def test_looking_is_recorded_and_told(shop: Shop) -> None:
    look = ("--schema", str(shop.schema), "--ledger", str(shop.ledger))
    status, out, _ = shop.run("risk", str(shop.data), COUNT, *look, "--epsilon", "1", "--json")
    assert status == 0
    assert json.loads(out)["n"] == 30
    other = COUNT.replace("20", "10")
    status, out, _ = shop.run("find", str(shop.data), other, *look, "--prefer", "ratio:0.5", "--json")
    assert (status, json.loads(out)["reading"], json.loads(out)["cut_off"]) == (0, 0.0, [])
    assert shop.books() == []
    for sql in (COUNT, other):
        _, out, _ = shop.release(sql, "--epsilon", "0.2", "--policy", "budget:2", "--json")
        assert json.loads(out)["guarantee"].endswith("was looked at before.")
    _, out, _ = shop.release(COUNT.replace("20", "30"), "--epsilon", "0.2", "--json")
    assert "before" not in json.loads(out)["guarantee"]


def test_find_honours_the_account(shop: Shop) -> None:
    look = ("--schema", str(shop.schema), "--ledger", str(shop.ledger), "--prefer", "ratio:0.4")
    shop.release(COUNT, "--epsilon", "0.7", "--policy", "budget:1.2")
    status, out, _ = shop.run("find", str(shop.data), COUNT, *look, "--json")
    document = json.loads(out)
    assert status == 0
    assert (document["epsilon"], document["reading"]) == (0.5, 0.7)
    assert document["cut_off"] == [*map(float, range(10, 0, -1)), 0.9, 0.8, 0.7, 0.6]
    status, out, _ = shop.run("find", str(shop.data), COUNT, *look)
    assert status == 0
    assert "0.5" in out
    shop.release(COUNT, "--epsilon", "0.5")
    status, out, _ = shop.run("find", str(shop.data), COUNT, *look, "--json")
    assert status == 1
    assert (json.loads(out)["epsilon"], json.loads(out)["reading"]) == (None, 1.2)
    status, out, _ = shop.run("find", str(shop.data), COUNT, *look)
    assert status == 1
    assert "Stopped by the odometer" in out
    status, _, err = shop.run("find", str(shop.data), COUNT, "--ledger", str(shop.ledger), "--prefer", "ratio:0.4")
    assert status == 2
    assert "--schema" in err


def test_the_risk_after_a_release(shop: Shop) -> None:
    shop.release("SELECT city, AVG(paid) FROM shop GROUP BY city", "--epsilon", "2", "--policy", "paper")
    entry = shop.books()[0]["entries"][0]["id"]
    look = ("--schema", str(shop.schema), "--ledger", str(shop.ledger), "--release", entry)
    sql = "SELECT city, AVG(paid) FROM shop GROUP BY city"
    status, out, _ = shop.run("risk", str(shop.data), sql, *look, "--json")
    document = json.loads(out)
    assert status == 0
    assert (document["release"], document["epsilon"], document["n"], document["k"]) == (entry, 2.0, 30, 6)
    assert sum(line["people"] for line in document["classes"]) == 30
    assert all(abs(line["loss"]) <= 2.0 * line["sensitivity"] / 2 + 1e-9 for line in document["classes"])  # P1, Δ = 2
    assert document["loss"]["max"] == max(line["loss"] for line in document["classes"])
    status, out, _ = shop.run("risk", str(shop.data), sql, *look)
    assert status == 0
    assert "ex-post loss" in out
    for words, message in (
        ((COUNT, *look), "another query"),
        ((sql, *look[:-1], "0123456789abcdef"), "no entry"),
        ((sql, *look, "--top", "3"), "Leave --top out"),
        ((sql, *look[:2], *look[4:]), "--release goes with --ledger"),
    ):
        status, out, err = shop.run("risk", str(shop.data), *words)
        assert (status, out) == (2, "")
        assert message in err
    shop.write_data(last="1")
    status, _, err = shop.run("risk", str(shop.data), sql, *look)
    assert status == 2
    assert "other data" in err
