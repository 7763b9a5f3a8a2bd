"""Write docs/python.md from the docstrings of the public names. Takes nothing; gives the page, the same every time.

Names in ``dosimeter.__all__`` are public, and the members of its classes that are listed here; all else may change.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import dosimeter
from dosimeter.problems import Problem, Surface

TARGET = Path(__file__).parents[1] / "docs" / "python.md"
HEAD = """\
# Python

Written by `make docs` from the docstrings; change these in `src/dosimeter/`, not this page. What is not on this page is
private and may change without notice. Everything that the [command line](cli.md) does can be done from Python; options
have the same names and the same meaning. What the words mean is in the [glossary](glossary.md).

```python
from dosimeter import Budget, Dataset, Fixed, Ledger

clinic = Dataset.open("clinic.csv", schema="clinic.toml")
query = clinic.query("SELECT COUNT(*) FROM clinic WHERE smoker")
choice = query.find("ratio:0.95")
with Ledger.open("ledger.db") as ledger:
    answer = query.release(ledger, Fixed(0.05), policy=Budget(2))
```
"""
# In the order in which a reader needs them. Members that are not listed serve other modules of the package.
MEMBERS = {
    "Dataset": (
        "open",
        "query",
        "risk",
        "explain",
        "draft_schema",
        "find_schema",
        "check_schema",
        "summary_query",
        "dry_run",
        "release",
        "summary",
        "close",
    ),
    "Query": ("explain", "risk", "find", "dry_run", "release"),
    "FoundSchema": ("text",),
    "Fixed": (),
    "Preferred": (),
    "Selected": (),
    "Paper": (),
    "Budget": (),
    "ReleaseOptions": (),
    "Risk": (
        "sensitivities",
        "sensitivity",
        "rdr",
        "find",
        "people",
        "by",
        "absolute",
        "plot",
        "histogram",
        "distribution",
    ),
    "Choice": ("asked", "meeting", "words", "notes"),
    "Answer": ("describe", "table", "to_arrow", "to_pandas", "to_polars"),
    "Summary": ("describe", "to_arrow", "to_pandas", "to_polars", "save"),
    "DryRun": ("granted", "reason", "analyst_sees", "describe"),
    "Explanation": ("describe",),
    "Schema": ("load", "save", "dummy", "account_name"),
    "SchemaCheck": ("agrees",),
    "Ledger": ("open", "describe", "remaining", "verify", "export", "clear", "close"),
    "Client": ("datasets", "check", "submit", "query", "queries", "close"),
}
SECTION = re.compile(r"^(Args|Returns|Raises):$", flags=re.MULTILINE)


def write_page() -> str:
    """Return the whole page: every public class with its members, then the errors."""
    parts = [HEAD]
    for name, members in MEMBERS.items():
        parts.append("\n".join(_describe_class(name, members)))
    return "\n".join([*parts, *_describe_errors()]) + "\n"


def _describe_class(name: str, members: tuple[str, ...]) -> Iterator[str]:
    kind = getattr(dosimeter, name)
    yield f"## {name}"
    yield ""
    yield from _write_docstring(kind.__doc__)
    fields = list(_list_fields(kind))
    if fields:
        yield "| field | what |"
        yield "|---|---|"
        yield from fields
        yield ""
    for member in members:
        yield from _describe_member(kind, member)


def _list_fields(kind: Any) -> Iterator[str]:
    """Yield the fields of a dataclass with their types, or with their help where they are declared as options."""
    if dataclasses.is_dataclass(kind) and kind is not dosimeter.Risk:
        for field in dataclasses.fields(kind):
            option = field.metadata.get("option")
            words = f"`{field.type}`" if option is None else Problem(*option.pieces).word(Surface.PYTHON)
            if not field.name.startswith("_"):
                yield f"| `{field.name}` | {words.replace('|', chr(92) + '|')} |"


def _describe_member(kind: Any, member: str) -> Iterator[str]:
    found = inspect.getattr_static(kind, member)
    if isinstance(found, (property, cached_property)):
        yield f"### {kind.__name__}.{member}"
        yield ""
        yield from _write_docstring(found.__doc__)
        return
    function = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    yield f"### {kind.__name__}.{member}"
    yield ""
    yield "```"
    yield f"{member}({', '.join(_write_parameters(parameters))})"
    yield "```"
    yield ""
    yield from _write_docstring(function.__doc__)


def _write_parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """Yield each parameter with its default, and the star before those that have to be named."""
    positional = True
    for parameter in parameters:
        if positional and parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            positional = False
            yield "*"
        stars = "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else ""
        yield f"{stars}{parameter.name}{_write_default(parameter.default)}"


def _write_default(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return ""
    return f"={default.__name__ if inspect.isfunction(default) else repr(default)}"


def _write_docstring(text: str | None) -> Iterator[str]:
    """Yield a docstring as Markdown: its paragraphs, then each section as a list."""
    cleaned = inspect.cleandoc(text or "")
    head, *sections = SECTION.split(cleaned)
    yield _plain(head.strip())
    yield ""
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        lines = textwrap.dedent(body.strip("\n"))
        if title == "Returns":
            yield f"Returns: {_plain(' '.join(lines.split()))}"
        else:
            entries = re.split(r"\n(?=\S)", lines)
            for entry in entries:
                name, _, words = " ".join(entry.split()).partition(": ")
                yield f"- `{name}`: {_plain(words)}" if title == "Args" else f"- raises `{name}`: {_plain(words)}"
        yield ""


def _plain(text: str) -> str:
    return text.replace("``", "`")


def _describe_errors() -> Iterator[str]:
    from dosimeter import errors

    yield "## Errors"
    yield ""
    yield "```"
    yield inspect.cleandoc(errors.__doc__ or "")
    yield "```"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/python.md from the docstrings.")
    parser.parse_args()
    TARGET.write_text(write_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
