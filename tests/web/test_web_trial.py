"""Try a query on invented rows: its answer's shape, in the limits of a check; and the rows to download."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dosimeter import Schema
from dosimeter.options import LookOptions
from dosimeter.release import Fixed, Preferred, ReleaseOrder, answer_on_invented_rows, prepare_release
from dosimeter.web import state
from dosimeter.web.check_processes import CheckLimits
from dosimeter.web.checks import INVENTED_ROWS
from tests.known import known
from tests.quick_servers import SharedProcesses
from tests.waiting import LONGEST_WAIT
from tests.web.browsing import OpenPage, expect, find_barriers
from tests.web.web_site import (
    CLINIC,
    COUNT,
    Guest,
    Site,
    StartSite,
    note_readers,
    read_text,
    write_dataset,
)

pytestmark = pytest.mark.xdist_group("checks")
GROUPS = "SELECT sex, COUNT(*) AS n, AVG(visits) AS visits FROM clinic GROUP BY sex"
INVENTED = "invented rows, not from the table"
JOINED = """
individuals = 900
unit = "pid"
max_rows_per_unit = 2
row_key = "vid"
columns.pid = { type = "integer", identifying = true }
columns.vid = { type = "integer" }
columns.ward = { type = "category", values = ["-a", "b"] }
columns.kind = { type = "category" }
[tables."my wards"]
source = "wards.csv"
public = true
key = "ward"
columns.ward = { type = "text" }
columns.beds = { type = "integer", bounds = [0, 9] }
"""


def attempt(guest: Guest, sql: str = COUNT, epsilon: str = "0.5", dataset: str = "clinic") -> str:
    """Press the button; return the part of the page with the result."""
    response = guest.act("/ask", dataset=dataset, sql=sql, trial="1", epsilon=epsilon)
    assert response.status_code == 200, response.text
    return known(re.search(r'<div id="trial".*?</form>', response.text, re.S))[0]


def read_numbers(result: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", result, re.S)[1:]
    return [[read_text(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)] for row in rows]


# ---------------------------------------------------------------- the result


def test_the_shape_of_an_answer_with_its_noise(site: Site, anna: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the data are not read, nothing is charged, and nothing is written down."""
    readers = note_readers(monkeypatch)
    logged = site.state.database.ledger.head()
    result = attempt(anna, GROUPS)
    assert INVENTED in read_text(result)
    numbers = read_numbers(result)
    assert [row[0] for row in numbers] == ["Female", "Male", "Other"]
    for _, counted, _ in numbers:  # 3 numbers share ε = 0.5: noise of 6 at most times 40 or so
        number, error = map(float, known(re.fullmatch(r"(\d+) ± (\d+)", counted)).groups())
        assert abs(number - 327) < 150
        assert error == 18
    assert readers == []
    assert site.entries() == ()
    assert site.state.database.ledger.head() == logged
    assert "0 queries" in read_text(anna.get("/queries").text) or COUNT not in anna.get("/queries").text


def test_the_noise_is_that_of_the_chosen_epsilon(site: Site, anna: Guest) -> None:
    """A count's 95 % error at ε, as the table of expected errors has it; any other ε is not on offer."""
    for epsilon, error in (("0.1", "30"), ("0.5", "6"), ("1", "3"), ("7", "3"), ("", "3")):
        (((cell,),), told) = read_numbers(result := attempt(anna, epsilon=epsilon)), read_text(result)
        assert cell.endswith(f" ± {error}")
        assert f"ε = {epsilon if epsilon in ('0.1', '0.5') else '1'};" in told
    assert {attempt(anna, epsilon="0.1") for _ in range(4)} != {result}  # drawn anew


def test_a_refusal_is_the_checks_own(anna: Guest) -> None:
    for sql in ("SELECT name FROM clinic", "SELECT COUNT(*) FROM clinic WHERE name = 'x'", "", "SELECT 1; SELECT 2"):
        page = anna.act("/ask/check", dataset="clinic", sql=sql).text
        message = read_text(known(re.search(r"✗</span>(.*?)</p>", page, re.S))[1])
        assert message in read_text(attempt(anna, sql))
        assert "<table" not in attempt(anna, sql)


def test_what_was_typed_stays_and_nothing_is_submitted(anna: Guest) -> None:
    typed = {"dataset": "clinic", "sql": COUNT, "purpose": "a <b>", "wanted_error": "7", "epsilon": "1"}
    page = anna.act("/ask", trial="1", **typed).text
    assert "a &lt;b&gt;" in page
    assert 'value="7"' in page
    assert re.search(r"<option selected>1</option>", page)
    assert COUNT not in anna.get("/queries").text


def test_only_analysts_try(guest: Guest, carol: Guest) -> None:
    form = {"dataset": "clinic", "sql": COUNT, "trial": "1"}
    assert carol.act("/ask", **form).status_code == 403
    assert carol.get("/ask/invented.csv", params={"dataset": "clinic"}).status_code == 403
    for response in (guest.get("/ask/invented.csv", params={"dataset": "clinic"}), guest.get("/ask")):
        assert "Sign in" in response.text
    assert guest.post("/ask", data=form, follow_redirects=False).status_code in (303, 403)


# ---------------------------------------------------------------- every kind of answer


@pytest.fixture
def joined(start_site: StartSite, tmp_path: Path) -> Site:
    """A dataset with a joined table, which is nowhere, undeclared groups, and Gaussian noise."""
    settings = write_dataset(
        tmp_path, "visits", ["pid,vid,ward,kind", "1,1,b,x"], JOINED,
        mechanism="gaussian", algorithm="fixed", policy="budget:1", group_delta=1e-12, tell_cut=0.1,
    )  # fmt: skip
    return start_site(datasets={"visits": settings})


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ('SELECT w.beds, COUNT(*) AS n FROM visits JOIN "my wards" AS w USING (ward) GROUP BY w.beds', 2),
        ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward UNION ALL SELECT 'all', COUNT(*) FROM visits", 2),
        ("SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind", 2),
        ("SELECT COUNT(DISTINCT pid) AS n FROM visits HAVING n > 0", 1),
        ("SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM visits GROUP BY pid HAVING COUNT(*) = 2)", 1),
    ],
)
def test_every_kind_of_answer(joined: Site, sql: str, columns: int) -> None:
    with joined.guest("anna") as anna:
        rows = read_numbers(attempt(anna, sql, "1", "visits"))
    assert {len(row) for row in rows} == {columns}


def test_few_rows_of_many(start_site: StartSite, tmp_path: Path) -> None:
    facts = 'individuals = 900\ncolumns.at = { type = "integer", bounds = [1, 40] }'
    site = start_site(datasets={"t": write_dataset(tmp_path, "t", ["at", "1"], facts)})
    with site.guest("anna") as anna:
        result = attempt(anna, "SELECT at, COUNT(*) AS n FROM t GROUP BY at", dataset="t")
        none = attempt(anna, "SELECT at, COUNT(*) AS n FROM t GROUP BY at HAVING n > 1e6", dataset="t")
    assert len(read_numbers(result)) == 10
    assert "The first 10 of 40 rows." in read_text(result)
    assert "On these rows the answer has no row." in read_text(none)
    assert "<table" not in none.partition("</form>")[0]


def test_only_a_fixed_epsilon_is_answered_on_invented_rows() -> None:
    schema = Schema.load(str(CLINIC / "clinic.toml"))
    prepared = prepare_release(schema, COUNT, LookOptions(), ReleaseOrder(Preferred("ratio:0.95")))
    with pytest.raises(Exception, match="at a fixed ε"):
        answer_on_invented_rows(prepared, schema, 9)
    exact = prepare_release(schema, COUNT, LookOptions(), ReleaseOrder(Fixed(1e6)))
    wanted = schema.dummy(500).column("diagnosis").to_pylist().count("Wilson disease")
    assert answer_on_invented_rows(exact, schema, 500).answer == [{"count": wanted}]


# ---------------------------------------------------------------- limits

# As in a check's process, with queries that take too much where they are run, and not where they are checked.
PROGRAM = """
from dosimeter.web import checks
answer = checks.answer_on_invented_rows
def try_out(prepared, schema, rows):
    if "endless" in prepared.plan.sql:
        while True:
            pass
    kept = []
    while "growing" in prepared.plan.sql:
        kept.append(bytes(1 << 20))
    return answer(prepared, schema, rows)
checks.answer_on_invented_rows = try_out
checks.answer_requests()
"""


@pytest.fixture
def hurried(start_site: StartSite, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server whose checks and trials have little time and memory."""
    limits = CheckLimits(processor=2.0, seconds=LONGEST_WAIT, memory=2.0**28)
    processes = SharedProcesses(program=PROGRAM, limits=limits)
    monkeypatch.setattr(state, "CheckProcesses", lambda: processes)
    yield start_site()
    processes.close_for_good()


@pytest.mark.parametrize("taken", ["endless", "growing"])
def test_what_takes_too_much_is_ended(hurried: Site, taken: str) -> None:
    """It is told of the trial alone: the query can be answered. The next trial finds another process."""
    with hurried.guest("anna") as anna:
        page = anna.act("/ask", dataset="clinic", sql=f"SELECT COUNT(*) AS {taken} FROM clinic", trial="1").text
        assert "takes too long, or too much memory" in read_text(page)
        assert "This can be answered" in read_text(page)
        assert INVENTED in read_text(attempt(anna, GROUPS))


# ---------------------------------------------------------------- the rows themselves


def download(guest: Guest, **asked: str) -> list[dict[str, str]]:
    response = guest.get("/ask/invented.csv", params=asked)
    assert response.status_code == 200
    assert "attachment" in response.headers["content-disposition"]
    return list(csv.DictReader(io.StringIO(response.text)))


def test_the_rows_are_those_of_the_schema(site: Site, anna: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = note_readers(monkeypatch)
    found, wanted = download(anna, dataset="clinic"), site.state.datasets["clinic"].schema.dummy(INVENTED_ROWS)
    assert len(found) == INVENTED_ROWS
    for name in ("age", "diagnosis", "admitted"):
        cells = ["" if cell is None else str(cell) for cell in wanted.column(name).to_pylist()]
        assert [row[name] for row in found] == cells
    assert readers == []
    assert "made from the public facts on this page alone" in read_text(anna.get("/ask").text)


def test_every_table_is_offered(joined: Site) -> None:
    with joined.guest("anna") as anna:
        links = re.findall(r'href="/ask/invented.csv\?dataset=visits&amp;table=([^"]+)"', anna.get("/ask").text)
        assert links == ["visits", "my%20wards"]
        rows = download(anna, dataset="visits", table="my wards")
        assert [row["ward"] for row in rows] == ["'-a", "b"]  # a spreadsheet takes it for no formula
        assert len(download(anna, dataset="visits", table="visits")) == INVENTED_ROWS
        for asked in ({"dataset": "visits", "table": "x"}, {"dataset": "x"}):
            assert anna.get("/ask/invented.csv", params=asked).status_code == 404


# ---------------------------------------------------------------- in a browser


@pytest.mark.parametrize("scripts", [True, False])
def test_the_button_on_the_page(site: Site, open_page: OpenPage, scripts: bool) -> None:
    page = open_page(site, "anna", java_script_enabled=scripts)
    page.goto("/ask")
    page.fill("#sql", GROUPS)
    if scripts:
        expect(page.locator("#check .good")).to_be_visible()
    page.select_option("[name=epsilon]", "1")
    page.click("text=Try it on invented rows")
    expect(page.locator("#trial")).to_contain_text("1,000 invented rows")
    expect(page.locator("#trial tbody tr")).to_have_count(3)
    expect(page.locator("#sql")).to_have_value(GROUPS)
    if scripts:
        assert find_barriers(page) == []
    page.fill("#sql", "SELECT age FROM clinic")
    page.click("text=Try it on invented rows")
    expect(page.locator("#trial .problem")).to_contain_text("age is neither an aggregate nor in the GROUP BY")
