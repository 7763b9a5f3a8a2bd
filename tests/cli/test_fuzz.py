"""Whatever is typed: done, nothing suitable, or bad input. Never a bug's status, a traceback or a cell of the data."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dosimeter.schema import dump_schema
from tests.cli.command_line import Outcome, run_command
from tests.cli.marked_table import MARKER, SCHEMA, TABLE
from tests.corpus.tables import find_schema
from tests.golden.test_sql_soup import MANGLED, MEANT, SHAPED, SOUP
from tests.shares import Share

# A few examples with every change, many in the long run. What SQL they are made of is in tests/golden/test_sql_soup.py.
efforts = pytest.mark.parametrize("effort", ["few", pytest.param("many", marks=pytest.mark.long)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fuzz")
    (place / "t.csv").write_text(TABLE)
    (place / "t.toml").write_text(SCHEMA)
    (place / "people.csv").write_text(PEOPLE)
    (place / "people.toml").write_text(dump_schema(find_schema("people")))
    return place


def check(outcome: Outcome) -> bool:
    """Return whether it was accepted."""
    assert outcome.status in (0, 1, 2), outcome.err
    assert "Traceback" not in outcome.err
    assert "77731" not in outcome.err
    if outcome.status == 2:
        assert outcome.out == ""
        assert outcome.err.startswith("dosimeter: ")
    else:
        assert outcome.err == ""
    assert MARKER not in outcome.out
    return outcome.status != 2


# ---------------------------------------------------------------- SQL-like text


PEOPLE = f"""age,visits,pay,rate,score,city,country,member,born,seen,name,note,Größe,odd name
30,2,10.5,0.5,1.25,Bonn,CH,true,1921-01-01,2024-01-05 10:00:00,{MARKER},old,170,0
40,1,,0.25,,Köln,,false,,2024-02-29 23:59:59,Bob,{MARKER},,1
77731,-3,300,2,nan,elsewhere,DE,,1950-06-01,,Cleo,,300,2
"""
CUT = st.builds(lambda sql, at: sql[: at % (len(sql) + 1)], MEANT, st.integers(0, 400))
SQL = st.one_of(MEANT, MEANT.map(str), SHAPED, MANGLED, CUT, SOUP, st.text(max_size=60))  # MEANT counts twice


@efforts
def test_any_sql(effort: str, folder: Path) -> None:
    share = Share()

    @given(sql=SQL, drafted=st.booleans(), observed=st.booleans())
    @example(sql="SELECT COUNT(*) FROM people", drafted=True, observed=False)
    @example(sql="SELECT city, AVG(pay) FROM people GROUP BY city", drafted=False, observed=True)
    def type_it(sql: str, drafted: bool, observed: bool) -> None:
        words: list[str | Path] = ["--epsilon", "1", "--groups", "observed" if observed else "declared", "--json"]
        if not drafted:
            words += ["--schema", folder / "people.toml"]
        if sql.startswith(("-", "@")):
            sql = f" {sql}"
        share.count(check(run_command("risk", folder / "people.csv", sql, *words)))
        check(run_command("explain", sql, "--schema", folder / "people.toml"))

    type_it()
    share.require(0.2)


# ---------------------------------------------------------------- preferences and options

SENSIBLE_CONDITIONS = st.recursive(
    st.sampled_from(["age > 35", "ward = 'east'", "ill", "pay BETWEEN 0 AND 2", "name LIKE 'B%'", "seen IS NULL"]),
    lambda inner: st.builds("({} {} NOT {})".format, inner, st.sampled_from(["AND", "OR"]), inner),
    max_leaves=3,
)
TERMS = st.recursive(
    st.sampled_from(
        [
            *("MIN(rdr)", "MAX(rdr)", "AVG(normalized_rdr)", "VAR_POP(rdr)", "SUM(rdr)", "COUNT(*)", "rdr", "age"),
            *("QUANTILE_CONT(rdr, 0.9)", "0.5", "0", "-1e-300", "1e308"),
            *("MEDIAN(rdr) FILTER (WHERE ward = 'east')", "MIN(rdr) FILTER (WHERE age > 1e3)"),
        ]
    ),
    lambda inner: st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from(["+", "-", "*", "/", ">=", "AND", "=", "<"]), inner),
        st.builds("{}({})".format, st.sampled_from(["ABS", "MIN", "LEAST", ""]), inner),
        st.builds("MAX(rdr) FILTER (WHERE {})".format, st.one_of(SENSIBLE_CONDITIONS, SOUP)),
    ),
    max_leaves=5,
)
PREFERENCES = st.one_of(
    st.builds("{} {} {}".format, TERMS, st.sampled_from([">=", "<=", "<", ">", "=", "<>"]), TERMS),
    st.builds("{}:{}".format, st.sampled_from(["ratio", "variance", "x"]), st.one_of(st.floats(), st.text(max_size=5))),
    st.text(max_size=30),
)
NUMBERS = st.one_of(
    st.floats().map(repr), st.integers().map(str), st.sampled_from(["", "x", "1/n", "1/n²", "1e-400", "٣"])
)
DECIMALS = st.floats(0.001, 10.0).map(lambda value: f"{value:.3f}")
QUERY_SAMPLE = [
    "SELECT COUNT(*) FROM t WHERE age > 35",
    "SELECT ward, SUM(pay), AVG(age) FROM t GROUP BY ward",
    "SELECT MEDIAN(age) FROM t",
    "SELECT COUNT(DISTINCT ward) FROM t",
]


SENSIBLE_PREFERENCES = st.one_of(
    st.builds("ratio:{}".format, st.floats(0.01, 1.0)),
    st.builds("variance:{}".format, st.floats(1e-9, 10.0)),
    st.builds(
        "{}(rdr) {} {} * AVG(rdr)".format, st.sampled_from(["MIN", "MAX"]), st.sampled_from([">=", "<"]), DECIMALS
    ),
    st.builds("MEDIAN(rdr) FILTER (WHERE {}) >= {}".format, SENSIBLE_CONDITIONS, DECIMALS),
)
SENSIBLE_OPTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("--mechanism"), st.sampled_from(["laplace", "gaussian"])),
        st.tuples(st.just("--indicator"), st.sampled_from(["bound", "exact"])),
        st.tuples(st.just("--candidates"), st.lists(DECIMALS, min_size=1, max_size=3).map(",".join)),
        st.tuples(st.just("--all")),
    ),
    max_size=2,
)
ANY_OPTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("--mechanism"), st.sampled_from(["laplace", "gaussian"])),
        st.tuples(st.just("--indicator"), st.sampled_from(["bound", "exact"])),
        st.tuples(st.just("--calibration"), st.sampled_from(["zcdp", "classic"])),
        st.tuples(st.just("--delta"), NUMBERS),
        st.tuples(st.just("--sensitivity"), NUMBERS),
        st.tuples(st.just("--min-rows"), NUMBERS),
        st.tuples(st.just("--candidates"), st.lists(NUMBERS, max_size=3).map(",".join)),
        st.tuples(st.just("--delimiter"), st.sampled_from([",", ";", "\t", "", "ab", "'", "\n"])),
        st.tuples(st.just("--null"), st.sampled_from(["", "Bob", "'", "NA", "30"])),
        st.tuples(st.just("--table"), st.sampled_from(["t", "u", "", 'x"y', "a.b"])),
        st.tuples(st.just("--encoding"), st.sampled_from(["utf-8", "latin-1", "utf-16", "'"])),
        st.tuples(st.just("--all")),
        st.tuples(st.text(min_size=1, max_size=8).map(lambda text: f"--{text}")),
    ),
    max_size=4,
)


@efforts
def test_any_preference_and_options(effort: str, folder: Path) -> None:
    share = Share()

    @given(
        sql=st.sampled_from(QUERY_SAMPLE),
        wanted=st.one_of(
            st.tuples(SENSIBLE_PREFERENCES, SENSIBLE_OPTIONS),
            st.tuples(PREFERENCES, SENSIBLE_OPTIONS),
            st.tuples(SENSIBLE_PREFERENCES, ANY_OPTIONS),
        ),
    )
    def type_it(sql: str, wanted: tuple[str, list[tuple[str, ...]]]) -> None:
        prefer, options = wanted
        words = [word for option in options for word in option]
        if any("help".startswith(word[2:]) for word in words if word.startswith("--h")):
            words = []
        share.count(check(run_command("find", folder / "t.csv", sql, f"--prefer={prefer}", *words, "--json")))

    type_it()
    share.require(0.2)


# ---------------------------------------------------------------- schemas

KEYS = ["table", "individuals", "unit", "max_rows_per_unit", "row_key", "reviewed", "columns", "type", "bounds"]
KEYS.append("values")
WORDS = ['"t"', '"row"', '"age"', '"integer"', '"decimal"', '"category"', '"text"', '"date"', '""', "true", "false"]
MOMENTS = ["2020-01-01", "2020-01-01T00:00:00", "2020-01-01T00:00:00Z", "10:00:00", "1e999", "-0.0", "[]"]
SCALARS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(lambda value: "nan" if value != value else repr(value)),
    st.sampled_from(WORDS),
    st.sampled_from(MOMENTS),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=2).map(
            lambda parts: "{" + ", ".join(f"{key} = {value}" for key, value in parts.items()) + "}"
        ),
    ),
    max_leaves=4,
)
SCHEMAS = st.one_of(
    st.builds(
        lambda at, value: "\n".join(
            f"{line.split(' = ')[0]} = {value}" if number == at and " = " in line else line
            for number, line in enumerate(SCHEMA.splitlines())
        ),
        st.integers(0, SCHEMA.count("\n")),
        VALUES,
    ),
    st.builds(lambda at, length: SCHEMA[:at] + SCHEMA[at + length :], st.integers(0, len(SCHEMA)), st.integers(1, 40)),
    st.text(max_size=80),
)
SENSIBLE_SCHEMAS = st.builds(
    lambda people, low, high, wards: (
        SCHEMA.replace("individuals = 10", f"individuals = {people}")
        .replace("[0, 100]", f"[{low}, {high}]")
        .replace('["east", "west"]', str(wards).replace("'", '"'))
    ),
    st.integers(4, 10**6),
    st.integers(-(10**6), 0),
    st.integers(1, 10**6),
    st.lists(st.sampled_from(["east", "west", "north", "süd", "East "]), min_size=1, unique=True),
)


@efforts
def test_any_schema(effort: str, folder: Path) -> None:
    share = Share()

    @given(
        text=st.one_of(SCHEMAS, SENSIBLE_SCHEMAS, SENSIBLE_SCHEMAS.map(str)),  # what is sensible counts twice
        sql=st.sampled_from([*QUERY_SAMPLE, "SELECT since, COUNT(*) FROM t GROUP BY since"]),
    )
    def write_it(text: str, sql: str) -> None:
        path = folder / "any.toml"
        path.write_text(text, encoding="utf-8", errors="replace")
        words = ["--schema", path, "--epsilon", "1", "--top", "2", "--json"]
        share.count(check(run_command("risk", folder / "t.csv", sql, *words)))
        check(run_command("schema", folder / "t.csv", "--check", path))

    write_it()
    share.require(0.2)


# ---------------------------------------------------------------- data

CELLS = st.one_of(
    st.sampled_from(
        ["", "1", "-5", "2.5", "nan", "inf", "1e400", "true", "2020-01-01", "Ann", '"', '"a"', "'", "\t", ";"]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=5),
)


SENSIBLE_TABLES = st.lists(
    st.tuples(
        st.integers(-5, 100).map(str), st.sampled_from(["", "1.5", "2.25"]), st.sampled_from(["Ann", "Bob", "é"])
    ),
    min_size=1,
    max_size=6,
).map(lambda rows: [["number", "pay", "name"], *map(list, rows)])


@efforts
def test_any_csv(effort: str, folder: Path) -> None:
    share, drafts = Share(), Share()

    @given(
        rows=st.one_of(st.lists(st.lists(CELLS, max_size=4), max_size=6), SENSIBLE_TABLES),
        broken=st.one_of(st.just(b""), st.just(b""), st.binary(max_size=20)),
    )
    def write_it(rows: list[list[str]], broken: bytes) -> None:
        path = folder / "any.csv"
        path.write_bytes("\n".join(",".join(row) for row in rows).encode() + broken)
        drafted = run_command("schema", path)
        words = ["--epsilon", "1", "--top", "3", "--reveal", "--json"]
        share.count(check(run_command("risk", path, 'SELECT COUNT(*) FROM "any"', *words)))
        if drafts.count(check(drafted)):
            (folder / "drafted.toml").write_text(drafted.out, encoding="utf-8")
            check(run_command("schema", path, "--check", folder / "drafted.toml"))

    write_it()
    share.require(0.2)
    drafts.require(0.2)
