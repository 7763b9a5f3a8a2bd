"""Print for people on a terminal: risks with a table, bars and advice; answers, dry runs, accounts and stops."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import IO, TYPE_CHECKING, Any, cast

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from dosimeter.findings import find_accuracy_notes, word_all
from dosimeter.show import (
    format_epsilon,
    format_measured,
    format_number,
    format_percent,
    word_mechanism,
)
from dosimeter.show.terminal import (
    candidate_table,
    groups_table,
    people_table,
    pick_candidates,
    range_bars,
    say,
    shown_groups_table,
)

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.findings import Choice
    from dosimeter.ledger import AccountSummary, Entry, Incident, ReleasedAnswer, Remaining
    from dosimeter.release import Answer, Cost, DryRun, ExPostRisk, SelectedPreview
    from dosimeter.risk import Candidate, ExposedPerson, GroupRisk
    from dosimeter.summary import Summary

MOST_NOTED = 3  # candidates whose accuracy by group is written out


NO_GROUP = "No group is left: HAVING and LIMIT keep none, or none has enough people."


def make_console() -> Console:
    """Return a console on standard output. If that is not a terminal: 120 characters wide (or COLUMNS), no colour."""
    if sys.stdout.isatty():
        return Console(highlight=False, emoji=False)
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isascii() and columns.isdigit() and int(columns) > 0 else 120
    return Console(file=cast(IO[str], _Trimmed(sys.stdout)), highlight=False, emoji=False, width=width, no_color=True)


@dataclass(frozen=True, slots=True)
class _Trimmed:
    """A text stream that drops blanks at the ends of lines: tables are padded with them, which a file does not need."""

    stream: IO[str]

    def write(self, text: str) -> int:
        self.stream.write(re.sub(r" +(?=\n|$)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def print_risk(
    found: Risk,
    lines: Sequence[Candidate],
    *,
    people: Sequence[ExposedPerson],
    by: str | None,
    by_group: Sequence[GroupRisk],
    show_all: bool,
) -> None:
    from dosimeter.assessment import advise

    console = make_console()
    _print_candidates(console, found, lines, show_all=show_all)
    if people:
        console.print()
        console.print(people_table(people, epsilon=found.candidates[0], called=found.plan.words))
    if by is not None:
        console.print()
        console.print(groups_table(by_group, by=by, epsilon=found.candidates[0], called=found.plan.words))
    console.print()
    accuracy = [each for line in lines for each in find_accuracy_notes(line)] if len(lines) <= MOST_NOTED else []
    called, told = found.plan.words, advise(found, lines, aside=show_all)
    for sentence in told:
        console.print(say(sentence))
    notes = word_all((*(each for each in found.list_findings(lines) if each.is_note), *accuracy), called)
    print_notes(console, [note for note in notes if not any(note in each for each in told)])


def print_choice(found: Risk, choice: Choice, *, show_all: bool = False) -> None:
    console = make_console()
    _print_candidates(
        console, found, choice.candidates, show_all=show_all, epsilon=choice.epsilon, decides=choice.decides
    )
    console.print()
    told, at = choice.tell(aside=show_all), choice.start.epsilon
    for sentence in told:
        console.print(say(sentence))
    if at is not None:
        rho = format_number(found.mechanism.rho(at), 4)
        cost = f"under the policies paper and budget:E, ρ = {rho} under budget:E@D"
        console.print(Text(f"An answer at ε = {format_epsilon(at)} costs {format_epsilon(at)} {cost}.", style="dim"))
    print_notes(console, [note for note in choice.notes if not any(note in each for each in told)])


def _print_candidates(
    console: Console,
    found: Risk,
    lines: Sequence[Candidate],
    *,
    show_all: bool,
    epsilon: float | None = None,
    decides: bool = True,
) -> None:
    """Print the question, the candidates as a table and as bars, and groups that nobody declared (H1).

    ``epsilon``: the one that the preference found. ``decides``: as in ``candidate_table``.
    """
    _print_question(console, found)
    names = found.plan.aggregate_names
    called = found.plan.words
    console.print(candidate_table(lines, names, found=epsilon, show_all=show_all, decides=decides, called=called))
    console.print()
    console.print(range_bars(lines, show_all=show_all, found=epsilon if decides else None, called=called))
    if found.plan.threshold is not None:
        shown = lines if show_all else pick_candidates(lines)
        console.print()
        console.print(shown_groups_table(found.foresee_groups([line.epsilon for line in shown]), called))


def print_notes(console: Console, notes: Sequence[str]) -> None:
    if not notes:
        return
    console.print()
    lines = Table.grid(padding=(0, 1))
    for note in notes:
        lines.add_row("·", Text(note), style="dim")
    console.print(lines)


def _print_question(console: Console, found: Risk) -> None:
    console.print(Text(found.plan.sql.strip(), style="bold"))
    noise = word_mechanism(found.plan, found.mechanism)
    if found.mechanism.calibration:
        noise += f", δ = {found.mechanism.delta:.3g}"
    facts = (
        f"touches {found.matched:,} of {found.plan.words.count_people(found.present)}",
        f"{found.k:,} noisy {'number' if found.k == 1 else 'numbers'}",
        *(() if found.plan.only_ranks else (f"sensitivity {format_number(found.sensitivity)}",)),
        noise,
        f"RDR by the {found.indicator} indicator",
        "for the controller only",
    )
    console.print(Text(" · ".join(facts), style="dim"))
    console.print()


def print_answer(answer: Answer, columns: Sequence[str] = ()) -> None:
    """Print what the analyst may see, and only that.

    ``columns``: the names of the answer's columns that have an error, in the order of ``answer.error_95``. Where there
    are several, each error is printed with the name of its column.
    """
    console = make_console()
    if answer.status == "denied":
        console.print("Denied.")
        return
    rows = answer.answer or []
    table = Table(box=None, pad_edge=False)
    for name in rows[0] if rows else []:
        numeric = all(row[name] is None or _is_number(row[name]) for row in rows)
        table.add_column(Text(str(name)), justify="right" if numeric else "left")
    for at, row in enumerate(rows):
        errors = {} if answer.errors is None else answer.errors[at]
        table.add_row(
            *[_render_cell(value, errors.get(name), label=answer.is_label(name)) for name, value in row.items()]
        )
    console.print(table if rows else NO_GROUP)
    console.print()
    if answer.epsilon is not None:
        found = f", {answer.epsilon_svt:g} for finding it" if answer.epsilon_svt is not None else ""
        error = _word_errors(answer, columns, several=len(rows) > 1) if rows else ""
        console.print(f"ε = {format_epsilon(answer.epsilon)}{found}.{error}")
    for fact in answer.about:
        console.print(Text(fact))
    console.print(Text(answer.guarantee or "", style="dim"))


def print_summary(summary: Summary) -> None:
    """Print what the analyst may see, and only that: a table with a row for each column, and sentences below."""
    from dosimeter.summary import HEADINGS, NUMERIC, list_cells, list_notes

    console = make_console()
    if summary.rows is None:
        console.print("Denied.")
        return
    table = Table(box=None, pad_edge=False)
    for at, name in enumerate(HEADINGS):
        table.add_column(Text(name), justify="right" if at in NUMERIC else "left")
    for column in summary.columns:
        table.add_row(*[Text(cell) for cell in list_cells(summary, column)])
    console.print(table)
    console.print()
    for note in list_notes(summary):
        console.print(Text(note))


def _word_errors(answer: Answer, columns: Sequence[str], *, several: bool) -> str:
    """Return in words the largest 95 % error of each column, and which columns have no bound on their error.

    Columns drawn by rank are left out, because ``answer.about`` has their errors. ``several``: whether the answer has
    several rows.
    """
    ranked = answer.rank_errors or {}
    errors = {name: error for name, error in zip(columns, answer.error_95 or (), strict=False) if name not in ranked}
    known = {name: f"± {format_number(error)}" for name, error in errors.items() if error is not None}
    listed = list(known.values()) if len(columns) == 1 else [f"{name} {error}" for name, error in known.items()]
    worst, where = (" in the worst row", "In at least one row there") if several else ("", "There")
    told = f" 95 % error of the noise: {', '.join(listed)}{worst}." if listed else ""
    missing = ", ".join(name for name in errors if name not in known)
    return f"{told} {where} is no bound on the error of {missing}." if missing else told


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _render_cell(value: object, error: float | None, *, label: bool) -> RenderableType:
    """Return a value of an answer for printing, with its 95 % error. Control characters in texts are escaped (H1).

    ``label``: whether the value names a group.
    """
    return say(value) if isinstance(value, str) else Text(format_measured(value, error, label=label))


def print_dry_run(run: DryRun) -> None:
    from dosimeter.release import SelectedPreview

    console, found = make_console(), run.found
    console.print(Text(run.query.strip(), style="bold"))
    console.print(Text("dry run · controller only · nothing charged, nothing released", style="dim"))
    console.print()
    if found.sees["status"] == "stopped":
        already = "is stopped" if run.stopped is not None else "would be stopped for everybody"
        console.print(Text(f"No answer: the dataset {already}. {run.reason}"))
    elif run.reason is not None:
        console.print(Text(f"The request would be denied: {run.reason}"))
    elif run.repeated:
        console.print("Already answered: the analyst gets the same numbers again, from the ledger. Cost: 0.")
    elif isinstance(found, SelectedPreview):
        _print_outcomes(console, found)
    elif found.epsilon is not None:
        console.print(f"ε would be {format_epsilon(found.epsilon)}.")
        _print_cost(console, found.cost)
    for sentence in run.tell():
        console.print(say(sentence))
    if run.shown is not None:
        console.print(shown_groups_table(run.shown, run.called))
    for sentence in run.tell_seen():
        console.print(Text(sentence))
    told = "" if run.algorithm == "find" else " and will stand in the guarantee of new answers to this query"
    console.print(Text(f"That this was looked at is recorded{told}.", style="dim"))


def _print_outcomes(console: Console, found: SelectedPreview) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("ε", "probability", "variance", "meets the threshold", "reading after"):
        table.add_column(name, justify="right")
    shown = [line for line in found.candidates if line.probability >= 5e-4]
    for line in shown:
        table.add_row(
            format_epsilon(line.epsilon),
            format_percent(line.probability),
            f"{line.variance:.3g}",
            "✗" if line.violates else "✓",
            _show_reading(line.cost.reading_after),
        )
    console.print(table)
    hidden = len(found.candidates) - len(shown)
    if hidden:
        console.print(Text(f"({hidden} candidates below 0.05 % are not shown)", style="dim"))
    if found.kept:
        console.print("An earlier request paid for the noisy number: the outcome is certain, and finding ε is free.")
    else:
        price = f"a denial costs the test all the same, {found.way.svt:g}"
        console.print(f"Denied with probability {format_percent(found.denial)}; {price}.")
    console.print(
        f"The released ε violates the preference with probability {format_percent(found.violation)} "
        f"({found.way.selection} selection)."
    )
    if found.way.violation is not None:
        console.print(f"Promised, whatever the data: at most {format_percent(found.way.violation)}.")
    alpha = found.accuracy
    console.print(
        f"With a chance of {format_percent(1.0 - alpha.beta)} every comparison of the test is right within "
        f"{alpha.exact_alpha:.3g} (by the paper's formula: {alpha.paper_alpha:.3g})."
    )
    if alpha.warning:
        console.print("The threshold is below that: for some candidates the noise of the test is larger.")


def _print_cost(console: Console, cost: Cost | None) -> None:
    if cost is not None:
        before, after = _show_reading(cost.reading), _show_reading(cost.reading_after)
        charge = "∞" if cost.charge is None else f"{cost.charge:g}"
        console.print(f"Cost: {charge}. The reading would go from {before} to {after}.")
        if cost.epsilon:
            console.print(
                Text(f"By policy: {cost.epsilon:g} under paper and budget:E, ρ = {cost.rho:.4g} under budget:E@D.")
            )


def _show_reading(reading: float | None) -> str:
    return "∞" if reading is None else f"{reading:g}"


def print_ex_post_risk(found: ExPostRisk, *, most: int = 12) -> None:
    """Print how one released answer exposed everybody: at most ``most`` classes of people, the most exposed first.

    Each class has a privacy loss in ε: e^loss is the factor by which the answer is evidence that such a person is in
    the table. Classes are in the order of this loss.
    """
    console = make_console()
    console.print(Text(found.query.strip(), style="bold"))
    facts = (
        f"{found.n:,} individuals · noisy numbers: {found.k:,} · ε = {format_epsilon(found.epsilon)} · after release "
        f"{found.entry}"
    )
    console.print(Text(f"{facts} · controller only", style="dim"))
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in ("people", "own influence", "RDR by this answer", "ex-post loss"):
        table.add_column(name, justify="right")
    rows = zip(found.counts.tolist(), found.sensitivities, found.rdr, found.losses, strict=True)
    for _, (people, influence, rdr, loss) in zip(range(most), rows, strict=False):
        table.add_row(f"{people:,}", *(format_number(float(value)) for value in (influence, rdr, loss)))
    console.print(table)
    if len(found.counts) > most:
        console.print(Text(f"({len(found.counts) - most:,} more classes; --json lists them)", style="dim"))
    console.print()
    most_likely, mean = format_number(float(found.losses.max())), format_number(found.mean_loss)
    console.print(
        "To somebody who knows everybody else, this answer is evidence that a person's rows are in the table by a "
        f"factor of at most e^{most_likely}, on average e^{mean}; a negative loss speaks against it."
    )
    if found.epsilon_svt is not None:
        console.print(f"Finding ε privately cost everybody up to {found.epsilon_svt:g} more.")


def print_answers(answers: Sequence[ReleasedAnswer]) -> None:
    """Print released answers one after the other, as every analyst may see them."""
    console = make_console()
    if not answers:
        console.print("Nothing has been released yet.")
    for answer in answers:
        console.print(Text(answer.query.strip(), style="bold"))
        level = "" if answer.epsilon is None else f" · ε = {format_epsilon(answer.epsilon)}"
        console.print(Text(f"{answer.at}{level}", style="dim"))
        table = Table(box=None, pad_edge=False)
        rows = answer.rows
        for name in rows[0] if rows else []:
            table.add_column(Text(str(name)))
        for at, row in enumerate(rows):
            errors = {} if answer.errors is None else answer.errors[at]
            labels = set() if answer.errors is None else row.keys() - errors.keys()
            table.add_row(*[_render_cell(row[name], errors.get(name), label=name in labels) for name in row])
        console.print(table if rows else NO_GROUP)
        for fact in answer.about:
            console.print(Text(fact, style="dim"))
        console.print()


def print_stops(incidents: Sequence[Incident]) -> None:
    """Print each stopped dataset, even one that has no account yet, and the command that clears it."""
    console = make_console()
    for incident in incidents:
        console.print(Text(f"{incident.dataset} is stopped since {incident.at}: {incident.words}.", style="bold"))
        clear = f"dosimeter ledger LEDGER clear {shlex.quote(incident.dataset)} --by NAME --reason TEXT"
        console.print(Text(f"No release is answered until a controller clears it: {clear}"))


def _show_exact(account: AccountSummary, epsilon: Decimal, rounding: str = ROUND_CEILING) -> str:
    """Write an ε of an account to its last digit; rounded to four digits if the account counts ρ.

    What is spent is rounded up, the default of ``rounding``, so that it never looks smaller than it is. What is left is
    to be rounded down.
    """
    if epsilon.is_infinite():
        return "∞"
    if account.policy.in_zcdp:
        return f"{Context(prec=4, rounding=rounding).plus(epsilon).normalize():f}"
    return f"{epsilon.normalize():f}"


def _print_remaining(console: Console, account: AccountSummary, reading: str) -> None:
    """Print what is left of an account: in ε if it has a budget, and how many more answers fit at ε = 1, 0.1 and 0.01.

    ``reading``: what is spent, as text. An account that counts ρ also has its ρ printed.
    """
    left = account.remaining
    if left.epsilon is not None:
        rest = _show_exact(account, left.epsilon, ROUND_FLOOR)
        console.print(f"{reading} of {account.policy.budget:f} spent, {rest} left")
    for epsilon in (1.0, 0.1, 0.01):
        console.print(_count_more(left, epsilon))
    if account.reading.rho is not None:
        console.print(Text(f"ρ = {float(account.reading.rho):.4g}, in zCDP", style="dim"))


def _count_more(left: Remaining, epsilon: float) -> str:
    """Return in words how many answers are left: "17 more answers at ε = 0.1 (420 with Gaussian noise)"."""
    count, gaussian = left.answers[epsilon], left.gaussian.get(epsilon, left.answers[epsilon])
    words = f"{count:,} more {'answer' if count == 1 else 'answers'} at ε = {format_epsilon(epsilon)}"
    return words if gaussian == count else f"{words} ({gaussian:,} with Gaussian noise)"


def print_ledger(accounts: Sequence[tuple[AccountSummary, Sequence[Entry], bool]]) -> None:
    """Print accounts, each given with the entries to be shown, oldest first, and whether earlier ones exist."""
    from dosimeter.ledger import REASON_WORDS
    from dosimeter.release import name_question

    console = make_console()
    if not accounts:
        console.print("The ledger has no account yet.")
    for account, entries, earlier in accounts:
        reading = _show_exact(account, account.reading.epsilon)
        own = account.reading.delta if account.policy.delta is None else account.policy.delta
        console.print(Text(f"{account.dataset}: reading ε = {reading}, δ = {float(own):.3g}", style="bold"))
        _print_remaining(console, account, reading)
        cap = "" if account.max_epsilon is None else f", at most {account.max_epsilon:f} per query"
        console.print(Text(f"policy {account.policy}, algorithm {account.algorithm}{cap}", style="dim"))
        for note in account.notes:
            console.print(Text(note))
        for other in account.overlaps:
            console.print(Text(f"It holds some of the same data as the account {other}: add up both readings."))
        table = Table(box=None, pad_edge=False)
        for name in ("at", "entry", "status", "charge", "reading"):
            table.add_column(name, justify="right" if name in ("charge", "reading") else "left", no_wrap=True)
        noted = [name for name in ("analyst", "purpose") if any(getattr(e.request, name) for e in entries)]
        denied = ["reason"] if any(entry.reason is not None for entry in entries) else []
        for name in (*denied, *noted, "query"):
            table.add_column(name, overflow="fold")
        for entry in entries:
            texts = [Text("" if entry.reason is None else REASON_WORDS[entry.reason]) for _ in denied]
            texts += [Text(getattr(entry.request, name) or "") for name in noted]
            charge, after = _show_exact(account, entry.charge), _show_exact(account, entry.reading)
            table.add_row(entry.at, entry.id, entry.status, charge, after, *texts, Text(name_question(entry)))
        console.print(table)
        if earlier:
            console.print(
                f"{len(entries):,} of {account.entry_count:,} entries. Earlier ones: --dataset "
                f"{shlex.quote(account.dataset)} --before {entries[0].id}; all of them: --json."
            )
        if account.unsettled:
            console.print(
                f"{account.unsettled} reserved and never settled: a release was interrupted. They count in full."
            )
