"""Write docs/cli.md from the application itself. Takes nothing; gives the page, the same text every time.

Walks the commands as click has them, sub-commands too, so that an option cannot be added without being documented.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from dosimeter.cli import commands
from dosimeter.findings.sentences import SENTENCES

TARGET = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """\
# The command line

Written by `make docs` from the application itself; change the help texts in `src/dosimeter/cli/`, not this page.
`dosimeter paper` and `dosimeter study` come with the package in `paper/`: `pip install ./paper`.
`python -m dosimeter` is the same as `dosimeter`. What the words mean is in the [glossary](glossary.md).

| exit status | meaning |
|---|---|
| 0 | done: an ε was found, an answer released, a ledger intact |
| 1 | nothing suitable: no ε meets the preference, a denial, a stopped dataset, a ledger or schema found wrong |
| 2 | bad input: one message on standard error that names the fix |
| 3 | a bug of ours, with how to report it |
| 130 | interrupted by Ctrl-C; 143 by SIGTERM. What was charged by then is named |

With `--json` standard output holds one JSON document and nothing else.
"""

FINDINGS = """\
## Findings

`findings` in the JSON of `risk`, `find` and `release --dry-run` lists what bears on an answer at the ε in `start`: each
`{"kind": …, "weight": …, …, "text": …}`, with the numbers that the sentence `text` is made of. `verdict` follows from
the weights: `against` if anything speaks against it, otherwise `open` if anything warns, otherwise `for`.

| kind | weight | what it says |
|---|---|---|"""


def write_page() -> str:
    """Return the whole page: its head, then every command in the order of ``dosimeter --help``."""
    sections = [HEAD, *_describe_root(commands)]
    for path, command in walk_commands(commands, ("dosimeter",)):
        sections.append("\n".join(_describe_command(path, command)))
    return "\n".join([*sections, FINDINGS, *_list_findings()])


def walk_commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command below this one, with the words that call it."""
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield (*path, name), inner
        yield from walk_commands(inner, (*path, name))


def list_options(command: Any) -> list[Any]:
    """Return the options of a command, without the --help that every command has."""
    return [param for param in command.params if _is_option(param)]


def _describe_root(root: Any) -> Iterator[str]:
    if list_options(root):
        yield "\n".join([*_options_table(root), ""])


def _describe_command(path: tuple[str, ...], command: Any) -> Iterator[str]:
    arguments = [param for param in command.params if not _is_option(param)]
    usage = [*path, *(["[OPTIONS]"] if list_options(command) else []), *map(_usage_word, arguments)]
    yield f"## {' '.join(path)}"
    yield ""
    yield f"`{' '.join(usage)}`"
    yield ""
    yield " ".join(inspect.cleandoc(command.help or "").split())
    yield ""
    if arguments:
        yield from ["| argument | meaning |", "|---|---|"]
        yield from (f"| `{_metavar(param)}` | {_cell(_meaning(param))} |" for param in arguments)
        yield ""
    if list_options(command):
        yield from _options_table(command)
        yield ""


def _list_findings() -> Iterator[str]:
    """Yield a row for each kind of finding: what JSON calls it, how it weighs, and what it is."""
    kinds: dict[str, list[type[Any]]] = {}
    for each in SENTENCES:
        kinds.setdefault(each.kind, []).append(each)
    for kind, classes in kinds.items():
        weights = " or ".join(dict.fromkeys(each.weight.value for each in classes))
        said = " ".join(inspect.cleandoc(classes[0].__doc__ or "").split("\n\n")[0].split()).split(". ")[0].rstrip(".")
        yield f"| `{kind}` | {weights} | {_cell(re.sub(r' [(][A-Z][0-9]+[)]', '', said).replace('``', '`'))} |"
    yield ""


def _options_table(command: Any) -> Iterator[str]:
    yield from ["| option | meaning |", "|---|---|"]
    for param in list_options(command):
        names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
        value = "" if param.is_flag else f" `{_cell('|'.join(_choices(param)) or _metavar(param))}`"
        yield f"| {names}{value} | {_cell(_meaning(param))} |"


def _meaning(param: Any) -> str:
    text = (param.help or "").strip()
    remarks = []
    if _is_option(param) and param.required:
        remarks.append("Required.")
    if param.multiple and "repeatable" not in text:
        remarks.append("Repeatable.")
    default = param.to_info_dict()["default"]
    if default not in (None, False, (), "") and not param.required and "default" not in text:
        remarks.append(f"Default: {default}.")
    choices = _choices(param) if not _is_option(param) else []
    if choices:
        remarks.append(f"One of: {', '.join(choices)}.")
    return " ".join([text, *remarks]).strip()


def _choices(param: Any) -> list[str]:
    return list(param.type.choices) if isinstance(param.type, click.Choice) else []


def _is_option(param: Any) -> bool:
    return str(param.opts[0]).startswith("-")


def _metavar(param: Any) -> str:
    return param.metavar or str(param.name).upper()


def _usage_word(param: Any) -> str:
    word = _metavar(param)
    return word if param.required else f"[{word}]"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/cli.md from the application itself.")
    parser.add_argument("--output", type=Path, default=TARGET, metavar="FILE", help="default docs/cli.md")
    parser.parse_args().output.write_text(write_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
