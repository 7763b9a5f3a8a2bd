"""One problem, worded for every surface and audience; and that nothing below the surfaces speaks for one of them."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import tomllib
import typing
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

import dosimeter
from dosimeter import Dataset, LedgerError, OptionError, QueryError
from dosimeter.ledger import Account, Policy
from dosimeter.mechanisms import NORMS
from dosimeter.options import OPTIONS, LookOptions, ReleaseOptions, SourceOptions, Study, check_option
from dosimeter.planning import plan_query
from dosimeter.problems import CHECK_SCHEMA, Audience, Hint, Option, Problem, Surface, for_controller, leave_out
from dosimeter.query import Query
from dosimeter.schema import read_schema
from dosimeter.web.settings import DatasetSettings

PACKAGE = Path(dosimeter.__file__).parent
COMMAND_LINE, PYTHON, SETTINGS, WEB = Surface
ANALYST, CONTROLLER = Audience


FLAGS = set(re.findall(r"`(--[a-z-]+)`", (PACKAGE.parents[1] / "docs" / "cli.md").read_text(encoding="utf-8")))


def list_modules() -> list[Path]:
    """Return the modules below the command line."""
    modules = sorted(PACKAGE.rglob("*.py"))
    return [path for path in modules if path.relative_to(PACKAGE).parts[0] != "cli"]


@cache
def parse_module(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def list_constants(path: Path) -> Iterator[str]:
    """Yield every string of a module but its docstrings, and the texts below a value."""
    nodes = list(ast.walk(parse_module(path)))
    alone = {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in alone:
            yield node.value


def list_named_options(path: Path) -> Iterator[str]:
    """Yield the name of every Option that a module writes down, but for those of a command."""
    calls = [
        node for node in ast.walk(parse_module(path)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    of_commands = {inner for call in calls if name_of(call) == "Command" for inner in ast.walk(call)}
    for call in calls:
        if name_of(call) in ("Option", "leave_out", "check_option") and call not in of_commands:
            yield from (str(given.value) for given in call.args[:1] if isinstance(given, ast.Constant))


def name_of(call: ast.Call) -> str:
    return ast.unparse(call.func)


def find_flags(text: str) -> set[str]:
    return FLAGS.intersection(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


# ---------------------------------------------------------------- wording


@pytest.mark.parametrize(
    ("surface", "words"),
    [
        (COMMAND_LINE, '--min-rows 3 --continue --all --epsilon E --table a"b Leave --selection out.'),
        (PYTHON, r'min_rows=3 continued=True show_all= epsilon=E table="a\"b" Leave selection= out.'),
        (SETTINGS, r'min_rows = 3 continued = true show_all epsilon = E table = "a\"b" Leave selection out.'),
        (WEB, r'min_rows = 3 continued = true show_all epsilon = E table = "a\"b" Leave selection out.'),
    ],
)
def test_every_surface_words_every_kind_of_option(surface: Surface, words: str) -> None:
    given = Option("min_rows", 3), Option("continued", True), Option("show_all"), Option("epsilon", text="E")
    pieces = [piece for option in given for piece in (option, " ")]
    command = "Dataset.check_schema()" if surface is PYTHON else "dosimeter schema DATA --check FILE"
    told = Problem(*pieces, Option("table", 'a"b'), leave_out("selection"), CHECK_SCHEMA).word(surface)
    assert told == f"{words} Check with: {command}."


def test_a_hint_reaches_only_those_it_is_for() -> None:
    problem = Problem(
        "It is so.",
        for_controller("Change the schema."),
        Hint("Ask otherwise."),
        Hint("Confirm it.", audience=CONTROLLER, surfaces=[WEB]),
    )
    assert problem.word(WEB, ANALYST) == "It is so. Ask otherwise."
    assert problem.word(WEB) == "It is so. Change the schema. Ask otherwise. Confirm it."
    assert problem.word(PYTHON) == "It is so. Change the schema. Ask otherwise."
    assert problem.hides_hint_from(ANALYST)
    assert not problem.hides_hint_from(CONTROLLER)
    assert not Problem("It is so.", Hint("Ask otherwise.")).hides_hint_from(ANALYST)


def test_text_that_looks_like_an_option_stays_as_it_is() -> None:
    name = "my --min-rows {table} file.csv"
    for surface in Surface:
        assert Problem(f"There is no file {name}.").word(surface) == f"There is no file {name}."


def test_an_error_is_worded_for_python_and_survives_being_pickled() -> None:
    error = QueryError("It is so.", leave_out("selection"), clause="x")
    copied = pickle.loads(pickle.dumps(error))
    for each in (error, copied):
        assert str(each) == "It is so. Leave selection= out."
        assert each.word(COMMAND_LINE) == "It is so. Leave --selection out."
        assert each.clause == "x"


def test_an_analyst_is_not_told_what_only_a_controller_can_do() -> None:
    schema = read_schema(
        {"table": "t", "individuals": 9, "columns": {"pay": {"type": "decimal"}, "x": {"type": "text"}}}
    )
    for sql, own, theirs in (
        ("SELECT SUM(pay) FROM t", "SUM(pay) has no bounds.", "Add [columns.pay] bounds = [low, high] to the schema."),
        ("SELECT COUNT(*) FROM t JOIN u USING (x)", "u is not declared. Ask one table.", "Or add [tables.u]"),
        (
            "SELECT x, COUNT(*) FROM t GROUP BY x",
            "GROUP BY x: x (text) has no declared list of values.",
            "--groups observed",
        ),
    ):
        with pytest.raises(QueryError) as refused:
            plan_query(sql, schema)
        assert refused.value.word(WEB, ANALYST) == own
        assert theirs in refused.value.word(COMMAND_LINE)


def test_a_section_that_is_to_be_added_can_be_read_as_it_is_printed() -> None:
    columns = {"cost (EUR)": {"type": "decimal"}, "blood group": {"type": "text"}}
    schema = read_schema({"table": "t", "individuals": 9, "columns": columns})
    for sql, name in (
        ('SELECT SUM("cost (EUR)") FROM t', "cost (EUR)"),
        ('SELECT "blood group", COUNT(*) FROM t GROUP BY 1', "blood group"),
    ):
        with pytest.raises(QueryError) as refused:
            plan_query(sql, schema)
        (section,) = re.findall(r"\[columns.*?\](?= |$)", refused.value.word(COMMAND_LINE))
        assert tomllib.loads(section) == {"columns": {name: {}}}


def test_the_terms_of_an_account_are_worded_for_each_surface() -> None:
    account = Account(
        dataset="clinic", opened_at="", policy=Policy.parse("budget:2"), algorithm="fixed",
        delta_total=Decimal("0.001"), max_epsilon=None, individuals=9, schema_digest="", source_digest="", entries=(),
        reading=Policy.parse("budget:2").start(Decimal("0.001")),
    )  # fmt: skip
    with pytest.raises(LedgerError) as refused:
        account.check_terms(algorithm="fixed", policy=Policy.parse("paper"))
    assert refused.value.word(COMMAND_LINE).endswith("Leave --policy out.")
    assert 'with policy = "budget:2", which' in refused.value.word(SETTINGS)
    assert "Leave" not in refused.value.word(SETTINGS)
    with pytest.raises(LedgerError, match=r"opened with no max_epsilon=, which.*Leave max_epsilon= out"):
        account.check_terms(algorithm="fixed", max_epsilon=Decimal(1))
    with pytest.raises(LedgerError) as refused:
        account.check_terms(algorithm="find")
    assert re.search(r"a fixed ε \(--epsilon\);.*\(--prefer\)\.", refused.value.word(COMMAND_LINE))
    assert re.search(r"a fixed ε;.* from a preference\. ", refused.value.word(SETTINGS))
    changed = account.refuse_change("other", "other")
    assert "give --continue:" in changed.word(COMMAND_LINE)
    assert "give continued=True:" in str(changed)
    assert "say so when you confirm:" in changed.word(WEB)
    assert "continue" not in changed.word(WEB)


# ---------------------------------------------------------------- nobody speaks for another surface


def test_no_module_below_the_surfaces_names_an_option_of_the_command_line() -> None:
    checked = list_modules()
    assert len(checked) > 150
    found = {
        f"{path.relative_to(PACKAGE)}: {text[:80]}"
        for path in checked
        for text in list_constants(path)
        if find_flags(text)
    }
    assert not found, "write Option(name) in its place"
    assert find_flags("Leave --min-rows out.") == {"--min-rows"}


CODES = re.compile(r"\([A-Z]\d{1,2}(?:[,–] ?[A-Z]\d{1,2})*\)|ε_svt|δ_g|Δ_svt|\bPIS\b|\b[Aa]lgorithm [12]\b")


def test_no_screen_shows_a_code_of_the_mathematics() -> None:
    """Screens say what is meant: such codes are for docs/math.md."""
    texts = [(path, text) for path in PACKAGE.rglob("*.py") for text in list_constants(path)]
    texts += [(path, path.read_text("utf-8")) for path in (PACKAGE / "web" / "templates").rglob("*.html")]
    assert len(texts) > 5_000
    assert {path.name: found for path, text in texts if (found := CODES.findall(text))} == {}
    assert all(CODES.search(text) for text in ("own guarantee (P1)", "costs ε_svt", "with algorithm 1", "(R5–R7)"))


def test_no_template_mends_a_sentence() -> None:
    templates = sorted((PACKAGE / "web" / "templates").rglob("*.html"))
    assert templates
    mending = re.compile(r"""replace\(["'][^"']*\s""")
    assert mending.search('{{ note | replace("give --continue:", "say so:") }}')
    assert not [path.name for path in templates if mending.search(path.read_text(encoding="utf-8"))]


def test_every_option_that_a_message_names_exists_on_the_command_line_and_in_python() -> None:
    speaking = [path for path in list_modules() if path != PACKAGE / "options.py"]  # the table's texts are for help
    named = {name for path in speaking for name in list_named_options(path)}
    assert len(named) > 20
    assert {name for name in named if Option(name).flag not in FLAGS} == set()
    risk = dosimeter.Risk
    calls = (
        Dataset.open,
        Dataset.find_schema,
        Dataset.query,
        Query.risk,
        Query.release,
        risk.people,
        risk.by,
        risk.plot,
    )
    keywords = {name for call in calls for name in inspect.signature(call).parameters}
    of_the_server, of_the_terminal = {"host", "port"}, {"show_all"}
    assert named - keywords - set(ReleaseOptions.__dataclass_fields__) == of_the_server | of_the_terminal


# ---------------------------------------------------------------- options are declared once


def test_every_declared_option_is_on_the_command_line() -> None:
    assert {name for name in OPTIONS if Option(name).flag not in FLAGS} == set()


def test_types_and_signatures_agree_with_what_is_declared() -> None:
    """mypy and editors read types, so they are written out; the values they allow are those that are declared."""
    declaring = (SourceOptions, LookOptions, Study, ReleaseOptions, DatasetSettings)
    hints = [typing.get_type_hints(kind) for kind in declaring]
    for name, declared in OPTIONS.items():
        for hint in (found[name] for found in hints if name in found):
            kinds = [hint, *typing.get_args(hint)]
            literals = {
                value for kind in kinds if typing.get_origin(kind) is typing.Literal for value in typing.get_args(kind)
            }
            assert literals == set(declared.choices), name
    assert OPTIONS["mechanism"].choices == tuple(NORMS)
    asked = {*inspect.signature(Dataset.query).parameters, *inspect.signature(Query.risk).parameters} - {"self", "sql"}
    assert asked == {*LookOptions.__dataclass_fields__, *Study.__dataclass_fields__} - {"observed", "study"}


@pytest.mark.parametrize(
    ("name", "good", "bad", "words"),
    [
        ("min_rows", 1, 0, "--min-rows must be a whole number, at least 1."),
        ("epsilon", 0.1, float("nan"), "--epsilon must be a positive number."),
        ("svt", 1e-9, 0.0, "--svt must be a positive number."),
        ("delimiter", ";", ";;", "--delimiter must be one character."),
        ("mechanism", "gaussian", "staircase", "--mechanism must be one of laplace, gaussian."),
    ],
)
def test_values_out_of_range_are_refused(name: str, good: object, bad: object, words: str) -> None:
    check_option(name, good)
    check_option(name, None, optional=True)
    for wrong in (bad, None, b"1", [1], True):
        with pytest.raises(OptionError) as refused:
            check_option(name, wrong)
        assert refused.value.word(COMMAND_LINE) == words
        assert str(refused.value) == words.replace(Option(name).flag, f"{name}=")
