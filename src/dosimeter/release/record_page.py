"""One printable page about one answer, for an ethics board: what was asked, promised and released, and how to check it.

Self-contained: no script, nothing loaded. Holds only what may be published, unless a controller's copy is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from dosimeter.ledger import REASON_WORDS
from dosimeter.release.facts.entries import holds_facts
from dosimeter.show import format_epsilon, format_measured

if TYPE_CHECKING:
    from dosimeter.ledger import Account, AccountSummary, Entry, Verification

MOST_ROWS = 200
_NO_LOOK = "no look at the data before that is on record for this request."
_STATUS = {"released": "Released", "denied": "Denied", "reserved": "Charged, without an answer"}
_STYLE = """
@page { size: A4; margin: 18mm }
:root { color-scheme: light }
body { font: 11pt/1.45 system-ui, sans-serif; color: #111; background: #fff }
body { max-width: 174mm; margin: 8mm auto; padding: 0 4mm }
h1 { font-size: 19pt; line-height: 1.2; margin: 0 0 1mm }
h2 { font-size: 12.5pt; margin: 7mm 0 1.5mm; border-bottom: 0.3mm solid #bbb; break-after: avoid }
p { margin: 1mm 0 }
.faint { color: #555 }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f4f4f4 }
pre { padding: 2.5mm; margin: 1mm 0; font-size: 9.5pt }
table { border-collapse: collapse; font-size: 9.5pt; margin: 1.5mm 0 }
th, td { text-align: left; padding: 0.7mm 5mm 0.7mm 0; vertical-align: top }
thead th { border-bottom: 0.3mm solid #111 }
tbody tr { break-inside: avoid }
.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
dl { display: grid; grid-template-columns: 42mm 1fr; gap: 0.8mm 4mm; margin: 1mm 0 }
dt { color: #555 }
dd { margin: 0; overflow-wrap: anywhere }
ul { margin: 1mm 0; padding-left: 5mm }
.private { border-left: 1mm solid #b00; padding-left: 4mm; margin-top: 7mm }
.private h2 { color: #b00; margin-top: 0 }
code { font-size: 9pt }
"""


def write_record(
    entry: Entry,
    account: Account | AccountSummary | None,
    verified: Verification | None,
    *,
    controller: bool = False,
    decision: Iterable[tuple[str, str]] = (),
) -> str:
    """Return the page as HTML. ``controller``: add what only the controller may see, marked as such.

    ``decision``: facts on how the query was decided, as names and values; shown only if ``controller`` is set.

    ``account``: the account that the entry was charged to; None if it may not be shown. ``verified``: whether the
    ledger is intact, and its head; None for a reader who may not know how many records there are.
    """
    request, hidden = entry.request, entry.hides_epsilon
    parts = [
        f"<h1>{escape(_STATUS[entry.status])}: one answer about {escape(entry.dataset)}</h1>",
        f'<p class="faint">Entry <code>{escape(entry.id)}</code>, asked {escape(entry.at)}'
        + (f", answered {escape(entry.settled_at)}" if entry.settled_at else "")
        + ".</p>",
        "<h2>The question</h2>",
        f"<pre>{escape(request.query.strip())}</pre>",
        _list_facts(
            [
                ("Purpose", request.purpose or "none was given"),
                ("Asked by", request.analyst or "not on record"),
                ("Approved by", str(request.settings.get("approved_by") or "not on record")),
            ]
        ),
    ]
    if entry.status == "released":
        parts += _write_promise(entry, hidden)
        parts += _write_answer(entry, hidden)
    parts += _write_checks(entry, verified)
    if controller:
        parts += _write_private(entry, account, decision)
    title = f"Answer {entry.id}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body>\n{chr(10).join(parts)}\n</body></html>\n"
    )


def _write_promise(entry: Entry, hidden: bool) -> list[str]:
    request = entry.request
    facts = [("Mechanism", " ".join(each for each in (request.mechanism, request.calibration) if each))]
    if not hidden and entry.epsilon is not None:
        facts.append(("ε", format_epsilon(float(entry.epsilon))))
        if entry.finding_epsilon is not None:  # as in the guarantee: whether a kept number was used is not told (V8)
            facts.append(("ε for finding it", format_epsilon(float(entry.finding_epsilon))))
        facts.append(("δ", f"{float(request.delta):g}"))
    if request.preference is not None:
        facts.append(("Preference", request.preference))
    if request.tau is not None:
        facts.append(("Threshold of the test", f"{float(request.tau):g}"))
    return [
        "<h2>What was promised</h2>",
        f"<p>{escape(entry.guarantee or '')}</p>",
        f"<p>{escape(_tell_choice(entry))}</p>",
        _list_facts(facts),
    ]


def _tell_choice(entry: Entry) -> str:
    """Say how ε was set, and whether that was after the look that the guarantee before it tells of (G0–G2).

    A look for another analyst's query is for the controller: it would tell that somebody else asked the same.
    """
    match entry.request.algorithm:
        case "find":
            return (
                "ε was chosen by the controller's preference, from the data themselves. It is withheld, because it "
                "would tell something about them."
            )
        case "find-and-release":
            found = "ε was found by a noisy test, whose cost is part of the charge"
            after = "the test was set up after that look, and its settings may depend on the data."
            return f"{found}; {after if entry.told else _NO_LOOK}"
        case "fixed":
            if entry.told:
                return "ε was set by the controller after that look, and may depend on the data."
            return f"ε was set by the controller; {_NO_LOOK}"


def _write_value(name: str, value: object, errors: Sequence[Mapping[str, float | None]] | None, at: int) -> str:
    """Write a value of the answer's row ``at`` with its error; a column that has no errors at all names groups."""
    stated = {} if errors is None else errors[at]
    return format_measured(value, stated.get(name), label=errors is not None and name not in stated)


def _write_answer(entry: Entry, hidden: bool) -> list[str]:
    rows, columns = entry.answer or [], list(entry.columns or ())
    errors = None if hidden else entry.errors
    numeric = {name for name in columns if any(_is_number(row[name]) for row in rows)}
    body, none = [], "–" if holds_facts(entry) else "NULL"
    for at, row in enumerate(rows[:MOST_ROWS]):
        written = [(name, none if row[name] is None else _write_value(name, row[name], errors, at)) for name in columns]
        cells = "".join(f"<td{_align(name in numeric)}>{escape(text)}</td>" for name, text in written)
        body.append(f"<tr>{cells}</tr>")
    head = "".join(f'<th scope="col"{_align(name in numeric)}>{escape(name)}</th>' for name in columns)
    told = (
        "What these facts are worth:"
        if holds_facts(entry)
        else "Errors are withheld: they would tell ε."
        if hidden
        else "± is the 95 % error of the noise: the number without it is further away in 5 of 100 cases at most."
    )
    parts = [
        "<h2>The answer and its accuracy</h2>",
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>",
    ]
    if len(rows) > MOST_ROWS:
        parts.append(f"<p>And {len(rows) - MOST_ROWS:,} more rows, in the ledger.</p>")
    parts.append(f"<p>{told}</p>")
    if entry.about:
        parts.append(f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in entry.about)}</ul>")
    return parts


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _align(number: bool) -> str:
    return ' class="num"' if number else ""


def _write_checks(entry: Entry, verified: Verification | None) -> list[str]:
    told, facts = "Whoever holds the ledger finds this answer in it by its entry.", list[tuple[str, str]]()
    if verified is not None:
        told = "Whoever notes the head can later tell whether anything up to here was altered."
        state = f"intact, {verified.records:,} records" if verified.intact else "NOT INTACT"
        facts = [("Ledger", state), ("Head", verified.head)]
    return [
        "<h2>How to check it</h2>",
        f"<p>Every record of the ledger carries the hash of the one before it. {told}</p>",
        _list_facts(
            [
                *facts,
                ("Digest of the schema", entry.request.schema_digest),
                ("Software", entry.request.software),
            ]
        ),
    ]


def _write_private(
    entry: Entry, account: Account | AccountSummary | None, decision: Iterable[tuple[str, str]]
) -> list[str]:
    """Return the part that only the controller may see: the charge, the reading, an ε that was found from the data."""
    reading = "∞" if entry.reading.is_infinite() else f"{entry.reading:f}"
    facts = [
        *decision,
        ("ε", "none" if entry.epsilon is None else f"{entry.epsilon:f}"),
        ("Charge", f"{entry.charge:f}"),
        ("Reading afterwards", reading),
        ("Policy of the account", "not on record" if account is None else str(account.policy)),
        ("Looked at before", _tell_look(entry)),
        ("Digest of the data", entry.request.source_digest),
        ("Digest of the request, the data included", entry.request.request_digest),
    ]
    if entry.rho is not None:
        facts.append(("ρ", f"{entry.rho:f}"))
    if entry.reason is not None:
        facts.append(("Reason of the denial", REASON_WORDS[entry.reason]))
    return ['<div class="private"><h2>For the controller only</h2>', _list_facts(facts), "</div>"]


def _tell_look(entry: Entry) -> str:
    if not entry.viewed:
        return "no"
    return "yes" if entry.told else "yes, for another analyst who asked the same"


def _list_facts(facts: Iterable[Sequence[str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts) + "</dl>"
