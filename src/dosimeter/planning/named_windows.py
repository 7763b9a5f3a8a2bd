"""Replace the names of windows, as in OVER w, by what the WINDOW clause says of them.

Later passes then meet only windows that are written in full.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dosimeter.sql import clause_of, refusal


def write_out_windows(select: exp.Select) -> None:
    """Replace OVER name, and OVER (name ORDER BY …), by what the WINDOW clause says, in the SELECT itself."""
    known: dict[str, exp.Window] = {}
    for window in select.args.get("windows") or []:
        _write_out(window, known)
        known[window.name.lower()] = window
    declared = list(known.values())
    for node in list(select.find_all(exp.Window)):
        if node.parent_select is select and not any(node is window for window in declared):
            _write_out(node, known)


def _write_out(node: exp.Window, known: Mapping[str, exp.Window]) -> None:
    """Add to a window the partition, order and frame of the window that it names; change nothing if it names none.

    Refuses an unknown name, and a window that has a partition of its own or repeats a part of the named one.
    """
    alias = node.args.get("alias")
    if alias is None:
        return
    named = known.get(str(alias.name).lower())
    if named is None:
        raise refusal(node, f"There is no window {alias.name}. Write OVER (PARTITION BY … ORDER BY …).")
    again = [name for name in ("partition_by", "order", "spec") if node.args.get(name) and named.args.get(name)]
    if again or node.args.get("partition_by"):
        raise refusal(
            node, f"{clause_of(node)} changes the window {alias.name}. Write OVER (PARTITION BY … ORDER BY …)."
        )
    for name in ("partition_by", "order", "spec"):
        value = named.args.get(name)
        if value:
            node.set(name, [part.copy() for part in value] if isinstance(value, list) else value.copy())
    node.set("alias", None)
