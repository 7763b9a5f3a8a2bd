"""What a table does not list does not exist: nothing is written beside a table and forgotten in it."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal
from pathlib import Path

import pytest

import dosimeter.cli
from dosimeter.cli.app import COMMANDS
from dosimeter.findings import CAUTIONS, GIVEN, NEXT, STATES, AccountRefuses, Finding, TakesAllLeft, Weight
from dosimeter.findings.on_answer import Rough
from dosimeter.findings.sentences import SENTENCES
from dosimeter.findings.verdict import _LINES
from dosimeter.ledger.accounting import POLICIES, Policy
from dosimeter.measures import SingleMeasure
from dosimeter.measures.measure import Dependence
from dosimeter.options import LookOptions, read_look
from dosimeter.planning import PlanOptions, plan_options, plan_query, planner
from dosimeter.release import Fixed, ReleaseOrder, prepare_release
from dosimeter.release.account_terms import write_request
from dosimeter.release.order import RECORDED as ON_RECORD
from dosimeter.release.selection import _REFUSALS
from dosimeter.schema import load_schema
from dosimeter.schema.facts import Column, ColumnType, Schema
from tests.measure_classes import list_measures

CLINIC = Path(dosimeter.__file__).parent / "data" / "clinic.toml"
SHARED = {
    "app",
    "explained",
    "files",
    "looks",
    "options",
    "printing",
    "progress",
    "schema_search",
    "stopping",
    "writing",
}
SCHEMA = Schema(
    "t",
    {"flag": Column("flag", ColumnType.BOOLEAN), "x": Column("x", ColumnType.INTEGER, bounds=(Decimal(0), Decimal(9)))},
)


def test_every_pass_is_in_the_order_of_passes() -> None:
    functions = [each for _, each in inspect.getmembers(planner, inspect.isfunction)]
    passes = {each for each in functions if list(inspect.signature(each).parameters) == ["draft"]}
    assert set(planner.PASSES) == passes
    assert len(planner.PASSES) == len(passes) > 5


@pytest.mark.parametrize(
    "clause",
    ["WHERE x > 1", "HAVING COUNT(*) > 1", "QUALIFY RANK() OVER (ORDER BY flag) = 1", "ORDER BY 1 DESC", "LIMIT 1"],
)
def test_every_clause_that_a_plan_may_have_changes_it(clause: str) -> None:
    """A clause that no pass reads would be dropped without a word."""
    plain, where = "SELECT flag, COUNT(*) FROM t", clause if clause.startswith("WHERE") else ""
    after = "" if where else clause
    without = plan_query(f"{plain} GROUP BY flag", SCHEMA)
    with_it = plan_query(f"{plain} {where} GROUP BY flag {after}", SCHEMA)
    assert (with_it.where, with_it.after) != (without.where, without.after)


def test_every_policy_is_listed() -> None:
    assert {kind.__name__ for kind in POLICIES} == {kind.__name__ for kind in Policy.__subclasses__()}
    assert {kind.rule for kind in POLICIES} == {"reading", "budget"}


def list_findings(kind: type[Finding] = Finding) -> Iterator[type[Finding]]:
    for inner in kind.__subclasses__():
        yield from list_findings(inner) if inner.__subclasses__() else [inner]


def test_every_finding_has_its_sentence() -> None:
    kinds = set(list_findings())
    assert len(kinds) > 50
    assert kinds <= set(SENTENCES)
    assert all(issubclass(kind, Finding) for kind in SENTENCES)


def test_every_finding_is_a_frozen_value_before_it_is_first_used() -> None:
    """Threads use one for the first time at once: nothing may be made then."""
    assert all("__dataclass_fields__" in vars(kind) and "__init__" in vars(kind) for kind in list_findings())


def test_every_finding_that_weighs_has_a_place_on_the_page() -> None:
    """Otherwise one could turn the verdict, and nobody would read why."""
    told = {*CAUTIONS, *GIVEN, *STATES, *NEXT, *(kind for _, kinds in _LINES.values() for kind in kinds)}
    weighty = {kind for kind in list_findings() if kind.weight is not Weight.REMARK}
    untold = {kind for kind in weighty if not issubclass(kind, tuple(told))}
    assert untold == {AccountRefuses, TakesAllLeft, Rough}  # told beside the cost, and in the advice


def test_every_choice_is_made_by_one_function() -> None:
    texts = {path: path.read_text() for path in Path(dosimeter.__file__).parent.rglob("*.py")}
    assert [path.name for path, text in texts.items() if re.search(r"(?<!class) Choice\(", text)] == ["choosing.py"]


def test_every_module_of_the_command_line_is_a_command_or_shared() -> None:
    modules = {each.name for each in pkgutil.iter_modules(dosimeter.cli.__path__)}
    assert {place.partition(":")[0] for place in COMMANDS.values()} == modules - SHARED


def test_the_help_of_an_option_is_written_once() -> None:
    texts = [path.read_text() for path in Path(dosimeter.cli.__file__).parent.glob("*.py")]
    helps = [found for text in texts for found in re.findall(r'help"?[=:]\s*"([^"]+)"', text)]
    assert len(helps) > 40
    assert {found for found in helps if helps.count(found) > 1} == set()


# Fields of an order that the ledger has a place for already, or that only say how this one call goes on.
ELSEWHERE = {"way", "terms", "analyst", "purpose", "again", "continued", "other_people"}


@dataclass(frozen=True, slots=True)
class LongerOrder(ReleaseOrder):
    """An order with two new fields, of which one goes on record."""

    ward: str | None = field(default=None, metadata=ON_RECORD)
    hurried: bool = False


def test_every_field_of_an_order_goes_on_record_or_has_its_place_elsewhere() -> None:
    names = {each.name for each in fields(ReleaseOrder)}
    everything = LongerOrder(Fixed(1.0), reference="r", approved_by="Carol", clamp=True, ward="eyes", hurried=True)
    prepared = prepare_release(load_schema(CLINIC), "SELECT COUNT(*) FROM clinic", LookOptions(), everything)
    looked = {"indicator", "candidates", "min_rows"}
    settings = dict(write_request(prepared, "0" * 64).settings)
    assert looked <= set(settings)
    recorded = {name: value for name, value in settings.items() if name not in looked}
    assert recorded == {"reference": "r", "approved_by": "Carol", "clamp": True, "ward": "eyes"}
    assert names == ELSEWHERE | (set(recorded) - {"ward"})
    assert ReleaseOrder(Fixed(1.0)).record() == {"clamp": False}


def test_every_option_of_a_plan_is_read_off_the_look() -> None:
    plans = [
        PlanOptions(groups="thresholded", group_delta=1e-6, quantiles="noise"),
        PlanOptions(groups="observed", min_rows=3, sensitivity=2.0),
        PlanOptions(tell_cut=0.2),
    ]
    for plan in plans:
        given = {name: value for name, value in asdict(plan).items() if name != "search"}
        assert plan_options(read_look(**given)) == plan
    changed = [name for plan in plans for name, value in asdict(plan).items() if value != getattr(PlanOptions(), name)]
    assert set(changed) | {"search"} == {each.name for each in fields(PlanOptions)}, "a search is no analyst's question"


@pytest.mark.parametrize(
    ("sql", "lower"),
    [
        ("SELECT COUNT(*) FROM t", 0),
        ("SELECT COUNT_IF(flag) FROM t", 0),
        ("SELECT COUNT(DISTINCT x) FROM t", 0),
        ("SELECT SUM(x) AS counted FROM t", None),
        ("SELECT MIN(x) FROM t", 0),
    ],
)
def test_what_an_estimate_is_clamped_to_is_its_own(sql: str, lower: int | None) -> None:
    """Whatever it is called: a sum may be negative, a count may not."""
    (estimate,) = plan_query(sql, SCHEMA).estimates
    assert isinstance(estimate, SingleMeasure)
    assert estimate.lower == lower


# Ledgers hold these: a digest of what a query measures is made of them.
RECORDED = {
    "CountRows": "count",
    "Count": "count",
    "Sum": "sum",
    "CentredSum": "centred sum",
    "CentredSquares": "sum of centred squares",
    "CountDistinct": "count distinct",
    "CountIndividuals": "count individuals",
    "BoundedMean": "mean with a floor on rows",
    "Quantile": "quantile",
    "Rank": "quantile",
    "Mean": "mean",
    "Variance": "variance",
    "Deviation": "standard deviation",
}


def test_names_are_those_that_ledgers_hold() -> None:
    assert {each.__name__: each.name for each in list_measures()} == RECORDED


def test_every_dependence_has_a_reason_and_a_measure() -> None:
    assert set(_REFUSALS) == set(Dependence)
    assert {each.depends_on for each in list_measures()} == {None, *Dependence}
