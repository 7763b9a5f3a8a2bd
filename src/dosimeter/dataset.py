"""What a controller does with a dataset: open it, look at risks, release. For the command line, the web and Python."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dosimeter.assessment import Risk
from dosimeter.engines import FORMS, ClosableEngine, Engine, ReadOptions, open_engine, read_frames
from dosimeter.errors import OptionError, QueryError, SchemaError
from dosimeter.influence import DeclaredTables, find_left_out, measure_influence, read_public_tables
from dosimeter.inspection import warn_of_people
from dosimeter.mechanisms import Mechanism
from dosimeter.options import (
    Indicator,
    LookOptions,
    MechanismName,
    Quantiles,
    ReleaseOptions,
    StudiedGroups,
    Study,
    read_look,
)
from dosimeter.planning import (
    PlanOptions,
    QueryPlan,
    build_mechanism,
    list_columns,
    plan_query,
    require_drawable,
)
from dosimeter.problems import ASKING, Hint, Option, Surface
from dosimeter.query import Query
from dosimeter.risk import parse_candidates
from dosimeter.schema import ColumnType, Schema, load_schema, read_schema

if TYPE_CHECKING:
    from dosimeter.inspection import RepeatedOwner, SchemaCheck
    from dosimeter.ledger import Ledger
    from dosimeter.planning import Explanation
    from dosimeter.release import Answer, DryRun, FoundSchema, Way
    from dosimeter.summary import Summary

DRAFTED = (
    "No schema was given: types, bounds and values were read off the data. Fine for looking; a release needs a "
    "reviewed schema (dosimeter schema)."
)
UNREVIEWED = (
    "The schema is not reviewed: n was counted, and its bounds may come from the data. A release needs reviewed = true."
)
ROWS_OF_ONE = (
    "{owner}. Here every row counts as another individual; if one person can have several rows, draft a schema "
    "(dosimeter schema), which will name whom to protect."
)
MOST_PLANS = 64
"""Plans that a dataset remembers."""

HAND_MADE = "The sensitivity was given by hand: for study only, it never backs a release."
OBSERVED = "Groups are those observed in the data: for study only, which groups exist is private."


class Dataset:
    """A table and its public facts. ``open`` it, and ask a ``query`` of it."""

    def __init__(
        self, engine: Engine, schema: Schema, *, drafted: bool, reopen: Callable[[], Engine] | None = None
    ) -> None:
        self.engine = engine
        self.tables = DeclaredTables(engine, schema)
        self._reopen = reopen  # opens the same source again, without a schema
        self.schema = schema
        self.drafted = drafted
        self._counted: int | None = None
        self._digest: str | None = None  # of the data that were counted
        self._known: set[str] = set()  # columns whose facts were read off the data
        self._plans: OrderedDict[tuple[str, PlanOptions], QueryPlan] = OrderedDict()  # by this schema, the latest last

    @classmethod
    def open(
        cls,
        source: Any,
        *,
        schema: str | Path | Schema | Mapping[str, object] | None = None,
        table: str | None = None,
        engine: str | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        null: str | None = None,
        decimal: str | None = None,
        date_format: str | None = None,
        tables: Mapping[str, object] | None = None,
    ) -> Dataset:
        """Open a table.

        Args:
            source: a .csv, .csv.gz or .parquet path or glob, a DuckDB file (also ``duckdb:PATH``), ``postgresql://…``,
                ``spark:TABLE``, a pandas, Polars or Arrow table, or a Spark DataFrame or session.
            schema: the table's public facts: a TOML file's path, a Schema, or a mapping of the same shape. Without
                one a draft is made in memory, which is enough for looking and never for releasing.
            table: the table of a database, or what to call a file's table.
            engine: ``"duckdb"``, ``"postgres"`` or ``"spark"``, where the source leaves a choice.
            delimiter: CSV: the character between columns.
            encoding: CSV: the encoding, such as ``"latin-1"``.
            null: CSV: how a missing value is written; empty by default.
            decimal: CSV: the decimal mark, ``","`` or ``"."``, which is the default. With a comma, points and spaces
                may stand between thousands.
            date_format: CSV: how dates are written, such as ``"%d.%m.%Y"``; 2024-12-31 is read in any case. A
                timestamp is a date, a blank and the time: 31.12.2024 23:59.
            tables: tables in memory, by name, for those that the schema declares for joins.

        Raises:
            DataError: the source cannot be read, or contradicts the schema.
            SchemaError: the schema is malformed.
        """
        facts = None if schema is None else _read_schema_source(schema)
        one_row_each = facts is None or facts.unit == "row"
        written = (delimiter, encoding, null, read_frames(tables) if tables else {}, decimal, date_format)
        options = ReadOptions(table, *written, one_row_each=one_row_each)
        reopen = partial(open_engine, source, engine, options)
        opened = ClosableEngine(reopen())
        try:
            if facts is None:
                from dosimeter.inspection import bare_schema

                return cls(opened, bare_schema(opened), drafted=True, reopen=reopen)
            opened.impose(facts)
            return cls(opened, facts, drafted=False, reopen=reopen)
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        """Close the source. Every later use of the dataset, or of a risk that needs it, raises DatasetClosed."""
        self.engine.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Dataset({self.schema.table!r})"

    # ------------------------------------------------------------ looking

    @property
    def n(self) -> int:
        """Return n (N2): how many people a reviewed schema declares; otherwise how many the table holds, at least 1."""
        declared = self.schema.individuals
        if self.schema.reviewed and not self.drafted and declared is not None:
            return declared
        return max(self.count(), 1)

    @property
    def people(self) -> int:
        """Return how many individuals the table holds (N5), at least 1: an empty table counts as one empty slot."""
        return max(self.count(), 1)

    def count(self) -> int:
        if self._counted is None:
            self._counted = self.tables.count_people()
        return self._counted

    def renew(self) -> str:
        """Let later reads see the data as they are now, and return their digest.

        If the digest changed, individuals are counted again when their number is next needed.
        """
        self.engine.refresh()
        digest = self.engine.fingerprint()
        if digest != self._digest:
            self._digest, self._counted = digest, None
        return digest

    def plan(self, sql: str, options: PlanOptions | None = None, *, mentioned: str = "") -> QueryPlan:
        """Return what the query would measure. Without a schema, first draft the facts of the columns that it names.

        ``mentioned``: further text, such as a preference; the facts of the columns that it names are drafted too.
        """
        schema = self._schema_for(f"{sql} {mentioned}")
        key = sql, options or PlanOptions()
        found = self._plans.get(key)
        if found is None or found.declared_schema is not schema:
            found = plan_query(sql, schema, options)
        self._plans[key] = found
        self._plans.move_to_end(key)
        while len(self._plans) > MOST_PLANS:
            self._plans.popitem(last=False)
        return found

    def _schema_for(self, text: str) -> Schema:
        """Return the schema to plan by: the given one, or the draft with the facts of every column that ``text`` names.

        The facts of a column are read off the data once, when a text first names it.
        """
        if not self.drafted:
            return self.schema
        words, lowered = set(re.findall(r"\w+", text.lower())), text.lower()
        mentioned = {
            name
            for name in self.schema.columns
            if name.lower() in words or (not name.isidentifier() and name.lower().replace('"', '""') in lowered)
        }
        missing = mentioned - self._known
        if missing:
            from dosimeter.inspection import draft_schema

            drafted = draft_schema(self.engine, only=missing)
            self._counted = drafted.individuals if drafted.individuals != 1 else None  # nobody, or one: to be counted
            self._known |= missing
            columns = {name: (drafted if name in missing else self.schema).columns[name] for name in drafted.columns}
            self.schema = replace(drafted, columns=columns)
            self._impose_whole_numbers(missing)
        elif self.schema.individuals != self.n:
            self.schema = replace(self.schema, individuals=self.n)
        return self.schema

    def _impose_whole_numbers(self, names: Collection[str]) -> None:
        """Make the engine read these columns as whole numbers where the draft says so and the source holds floats."""
        found = self.engine.describe()
        whole = [name for name in sorted(names) if self.schema.columns[name].type is ColumnType.INTEGER != found[name]]
        if whole:
            from dosimeter.inspection import impose_draft

            self.schema = impose_draft(self.engine, self.schema, whole)[0]

    def query(
        self,
        sql: str,
        *,
        mechanism: MechanismName = "laplace",
        delta: float | str | None = None,
        groups: StudiedGroups = "declared",
        group_delta: float | None = None,
        tell_cut: float | None = None,
        quantiles: Quantiles = "ranks",
        min_rows: int | None = None,
        indicator: Indicator = "bound",
        candidates: str | Sequence[float] | None = None,
    ) -> Query:
        """Return a question about the table, with everything that is the same for looking at it and for releasing.

        Args:
            sql: the analyst's query.
            mechanism: ``"laplace"`` or ``"gaussian"`` noise.
            delta: δ of Gaussian noise: a number, ``"1/n"``, or ``"1/n^2"``, which is the default.
            groups: ``"declared"`` groups; ``"thresholded"``: those of the data with enough people; or all that are
                ``"observed"``, for study.
            group_delta: with thresholded groups, the probability (δ) that somebody alone in a group makes it appear.
            tell_cut: the share of ε (with Gaussian noise: of ρ) for two more noisy numbers: how many people have rows
                that would matter and do not count, and how many have values that count as the bound which they exceed.
            quantiles: ``"ranks"`` to draw MIN, MAX, MEDIAN and quantiles by rank, ``"noise"`` as in the paper, for
                study.
            min_rows: a public lower bound on the rows that an AVG matches.
            indicator: the RDR as the paper's ``"bound"``, its ``"exact"`` expectation, or the bound over the numbers
                that one person's rows can reach, ``"cell"``.
            candidates: the ε's to look at, and to choose among: numbers, or ``"1,0.5,0.1"``; by default the paper's 37.

        Raises:
            OptionError: an option does not take the value.
        """
        look = read_look(
            mechanism=mechanism, delta=delta, groups=groups, group_delta=group_delta, tell_cut=tell_cut,
            quantiles=quantiles, min_rows=min_rows, indicator=indicator, candidates=candidates,
        )  # fmt: skip
        return Query(self, sql, look)

    def risk(self, sql: str, **options: Any) -> Risk:
        """Return everybody's per-instance sensitivity and RDR for this query. For the controller's eyes only.

        Args:
            sql: the analyst's query.
            **options: the keywords of ``Dataset.query`` and of ``Query.risk``.

        Raises:
            QueryError: the query cannot be analysed; the message names the clause.
        """
        return Query(self, sql, read_look(**options)).risk()

    def assess_plan(self, plan: QueryPlan, look: LookOptions) -> Risk:
        """Return the Risk of a plan: its public tables, its noise as ``look`` has it, and whom it moves how far."""
        plan = read_public_tables(plan, self.tables)
        epsilons = parse_candidates(look.candidates)
        n = self.n
        mechanism = build_mechanism(look, n)
        require_drawable(plan, mechanism, look.indicator)
        odd_cells = self._count_odd_cells(plan)
        notes = [*self._list_cautions(plan, mechanism), *self._warn_of_data(odd_cells or {})]
        profile, contributions = measure_influence(plan, self.tables, self.people, mechanism.norm)
        return Risk(
            plan=plan,
            mechanism=mechanism,
            indicator=look.indicator,
            n=n,
            present=self.count(),
            contributions=contributions,
            candidates=epsilons,
            notes=tuple(notes),
            profile=profile,
            tables=self.tables,
            left_out=find_left_out(plan, self.tables, profile, n, drafted=self.drafted),
            odd_cells=odd_cells,
        )

    # ------------------------------------------------------------ releasing

    def release(self, sql: str, *, ledger: Ledger, **options: Any) -> Answer:
        """Charge the ledger and release one answer, or deny it.

        Args:
            sql: the analyst's query.
            ledger: the open ledger that holds the dataset's account.
            **options: the keywords of ``Dataset.query``, and the fields of ``ReleaseOptions``.

        Returns:
            The Answer: its ``describe`` gives what the analyst may see. A denial has no answer and no reason.

        Raises:
            InputError: something that was given cannot be used: the SQL, an option, the schema, or the ledger.
            DatasetStopped: an incident stopped the dataset, now or before.
        """
        query, way, others = self._read_release(sql, options)
        return query.release(ledger, way, **others)

    def summary_query(self, *, columns: Sequence[str] | None = None) -> Query:
        """Return the query whose answer is one table about every column, written from the schema alone.

        It is a query like any other: look at its ``risk``, or at a ``dry_run``, before ``summary`` releases it.

        Args:
            columns: the columns to summarise; by default all but the one that says whose a row is.

        Raises:
            OptionError: a column does not exist, or there are too many.
            QueryError: the bounds or values of a column cannot be summarised; the message says what to change.
            SchemaError: no schema was given, so there are no public facts to go by.
        """
        from dosimeter.summary import write_summary

        if self.drafted:
            raise SchemaError(
                "A summary goes by public facts, and this dataset was opened without a schema. Open it with one."
            )
        query = Query(self, write_summary(self.schema, columns))
        try:
            query.plan  # noqa: B018 - planned now, so that what a column cannot be asked is said here
        except QueryError as error:
            fewer = Hint("Or leave columns out of the summary: ", Option("columns", text="a,b"), ".", surfaces=ASKING)
            raise QueryError(*error.problem.pieces, fewer) from None
        return query

    def summary(
        self, ledger: Ledger, *, epsilon: float, columns: Sequence[str] | None = None, **options: Any
    ) -> Summary:
        """Charge the ledger once and release one table about every column.

        How many rows have a value, and how many miss one; of numbers the mean and the quartiles, of dates the
        quartiles; how often each declared value occurs. Text, and what identifies people, is counted alone.

        Args:
            ledger: the open ledger that holds the dataset's account.
            epsilon: ε of the whole table. All numbers share it.
            columns: the columns to summarise; by default all but the one that says whose a row is.
            **options: the other options of ``Query.release``, such as ``policy`` and ``purpose``.

        Returns:
            The Summary, which shows itself in a notebook. A denial has no columns and no reason.

        Raises:
            InputError: something that was given cannot be used: a column, an option, the schema, or the ledger.
            DatasetStopped: an incident stopped the dataset, now or before.
        """
        from dosimeter.release import Fixed
        from dosimeter.summary import read_summary

        query = self.summary_query(columns=columns)
        answer = query.release(ledger, Fixed(epsilon), **options)
        return read_summary(query.plan, build_mechanism(query.look, self.n), answer)

    def dry_run(self, sql: str, *, ledger: Ledger, **options: Any) -> DryRun:
        """Return what ``release`` would do with the same arguments, for the controller's eyes only.

        Nothing is charged and nothing is released; that somebody looked is recorded in the ledger.

        Args:
            sql: the analyst's query.
            ledger: the open ledger that holds the dataset's account.
            **options: the keywords of ``Dataset.query``, and the fields of ``ReleaseOptions``.

        Raises:
            InputError: the release would be refused for the same reason.
        """
        query, way, others = self._read_release(sql, options)
        return query.dry_run(ledger, way, **others)

    def _read_release(self, sql: str, options: Mapping[str, Any]) -> tuple[Query, Way, dict[str, Any]]:
        from dosimeter.release import split_options

        of_look = {each.name for kind in (LookOptions, Study) for each in fields(kind)}
        look = read_look(**{name: value for name, value in options.items() if name in of_look})
        others = {name: value for name, value in options.items() if name not in of_look}
        return Query(self, sql, look), *split_options(ReleaseOptions(**others))

    # ------------------------------------------------------------ the schema

    def explain(self, sql: str, **options: Any) -> Explanation:
        """Return what a query would measure, from the schema alone: nothing of the data is read.

        Args:
            sql: the analyst's query.
            **options: the keywords of ``Dataset.query``.

        Raises:
            QueryError: the query cannot be answered; the message names the clause.
            SchemaError: no schema was given, so there are no public facts to go by.
        """
        return self.query(sql, **options).explain()

    def draft_schema(self) -> Schema:
        """Return a schema drafted from the data, for the controller to go through and ``save``.

        Its bounds and values were read off private data and ``reviewed`` is false: replace them by what is publicly
        known before anything is released. ``dosimeter schema`` writes the same draft with its remarks as comments.
        """
        from dosimeter.inspection import write_draft

        with self._open_again() as engine:
            return write_draft(engine).schema

    def find_schema(
        self,
        ledger: Ledger,
        *,
        spend: float | str,
        unit: str,
        delta: float | str | None = None,
        keep: float = 0.95,
        columns: Sequence[str] | None = None,
        **options: Any,
    ) -> FoundSchema:
        """Find the facts of a schema by spending ε: individuals, rows of each, bounds, values of categories.

        All of it is one request with one charge, and what is found may back releases as it is. Names and types are
        taken from this dataset: opened with a schema that was reviewed or found, also its bounds and values.

        Args:
            ledger: the open ledger that holds the dataset's account.
            spend: the ε of everything together. Columns share it equally: the fewer, the more exact.
            unit: whose privacy is protected: the column that says whose a row is, or ``"row"`` where every row is
                another individual.
            delta: for columns of text: the chance (δ) that a value which one individual alone has is shown.
            keep: the share of individuals of whom all rows are to count.
            columns: the names of the columns to search; by default all whose facts are not declared.
            **options: the terms of the account, and what is recorded: ``policy``, ``delta_total``, ``max_epsilon``,
                ``analyst``, ``purpose``, ``again``, ``continued``, ``other_people``, as for ``release``.

        Returns:
            The schema, what its facts are worth, and the ledger's entry.

        Raises:
            InputError: something that was given cannot be used. Nothing was charged.
            DatasetStopped: an incident stopped the dataset, now or before.
        """
        from dosimeter.release import Fixed, ReleaseOrder, Terms, plan_search, spend_on_schema

        search = plan_search(self.declare(unit=unit), spend=spend, delta=delta, keep=keep, columns=columns)
        terms = Terms(*(options.pop(each.name, None) for each in fields(Terms)))
        order = ReleaseOrder(Fixed(float(search.spend)), terms=terms, **options)
        with self._open_again() as engine:
            engine.impose(search.declared)
            dataset = Dataset(engine, search.declared, drafted=False)
            return spend_on_schema(dataset, search, order, ledger, lambda words: None)

    def declare(self, *, unit: str) -> Schema:
        """Return what is declared before a search for facts: the given schema's, or the source's names and types.

        ``unit``: as for ``find_schema``.
        """
        from dosimeter.inspection import bare_schema, propose_usual_types
        from dosimeter.release import declare_facts

        if not self.drafted:
            return declare_facts(self.schema, unit=unit)
        with self._open_again() as engine:
            return declare_facts(propose_usual_types(engine, bare_schema(engine)), unit=unit)

    def check_schema(self, schema: Schema | None = None) -> SchemaCheck:
        """Compare a schema with the data: counts of what disagrees, never cells. For the controller's eyes only.

        Args:
            schema: the schema to compare; by default the one the dataset was opened with.

        Returns:
            The findings (something to correct), the remarks (something to know), and how many cells count as NULL.

        Raises:
            SchemaError: no schema is given, and the dataset was opened without one.
        """
        from dosimeter.inspection import check_schema

        if schema is None and self.drafted:
            raise SchemaError("There is no schema to check: this dataset was opened without one. Give one.")
        with self._open_again() as engine:
            return check_schema(engine, self.schema if schema is None else schema)

    @contextmanager
    def _open_again(self) -> Iterator[Engine]:
        """Open the source a second time, without the schema, and close it at the end.

        This dataset's own engine keeps its schema, because risks that somebody holds may still read by it.
        """
        self.engine.describe()  # refused once the dataset is closed
        if self._reopen is None:
            raise OptionError("This dataset was made from an engine of its own. Use Dataset.open for this.")
        with closing(self._reopen()) as engine:
            yield engine

    def _count_odd_cells(self, plan: QueryPlan) -> Mapping[str, int] | None:
        """Return the number of odd cells in each doubtful column of the query, by the column's name.

        Doubtful are columns that may hold odd cells, by what opening the source showed (``Engine.doubtful_columns``).
        None if the query reads no such column: to count in the others would take a further scan, like the one that
        ``dosimeter schema --check`` makes.
        """
        doubtful = self.engine.doubtful_columns().intersection(list_columns(plan))
        return self.engine.count_odd_cells(sorted(doubtful)) if doubtful else None

    def _warn_of_data(self, odd_cells: Mapping[str, int]) -> Iterator[str]:
        """Yield a sentence on each known difference between the data and the schema.

        The table can be empty or hold another number of people than declared, and columns can hold odd cells.
        ``odd_cells``: how many, by column.
        """
        if self.count() == 0 and not self.schema.reviewed:
            yield "The table is empty. What is shown is for one individual who is not there."
        if self.count() > self.n:
            yield warn_of_people(self.count(), self.n, self.schema.words)
        elif self.count() < self.n and self.schema.reviewed:
            held = self.schema.words.count_people(self.count())
            yield f"{held} {'is' if self.count() == 1 else 'are'} in the table; {self.n:,} were declared."
        for name in (name for name, count in odd_cells.items() if count):  # a doubtful 12.0 is a whole number
            kind, count = self.schema.columns[name].type, odd_cells[name]
            yield f"{count:,} cells of {name} are not written as {FORMS[kind].words}: they count as NULL."

    def _list_cautions(self, plan: QueryPlan, mechanism: Mechanism) -> Iterator[str]:
        """Yield what to know of a drafted or unreviewed schema, and of a plan or noise that cannot back a release."""
        if self.drafted:
            from dosimeter.inspection import header_remarks

            yield DRAFTED
            yield from (remark.word(Surface.PYTHON) for remark in header_remarks(self.engine))
            owner = self._find_owner()
            if owner is not None:
                yield ROWS_OF_ONE.format(owner=owner)
        elif not self.schema.reviewed:
            yield UNREVIEWED
        if plan.hand_sensitivity is not None:
            yield HAND_MADE
        if plan.groups and not plan.declared and plan.threshold is None:
            yield OBSERVED
        if mechanism.caution is not None:
            yield mechanism.caution

    def _find_owner(self) -> RepeatedOwner | None:
        """Return the column that seems to say whose a row is, where people have several rows; None if no column does.

        Judged by the columns' names, and by how many values and distinct values each has. Found anew only if the data
        changed.
        """
        from dosimeter.inspection import count_values, find_repeated_owner, weigh_name

        named = {name: column for name, column in self.schema.columns.items() if weigh_name(name)}
        if not named:
            return None
        return self.tables.remember(
            "owner", lambda: find_repeated_owner(named.values(), *count_values(self.engine, list(named)))
        )


# ---------------------------------------------------------------- opening


def _read_schema_source(schema: str | Path | Schema | Mapping[str, object]) -> Schema:
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, (str, Path)):
        return load_schema(schema)
    if isinstance(schema, Mapping):
        return read_schema(schema)
    raise SchemaError("schema must be the path of a TOML file, a dictionary of the same shape, or a Schema.")
