"""Values that are taken as they are written: the same as Typer reads them, and the same complaints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from dosimeter.cli.plain_values import PlainCommand, read_plainly

KINDS: dict[str, Any] = {"text": str, "size": float, "number": int, "path": Path, "way": Literal["sharp", "paper"]}


def command(
    text: Annotated[str | None, typer.Option()] = None,
    size: Annotated[float | None, typer.Option()] = 0.5,
    number: Annotated[int | None, typer.Option()] = None,
    path: Annotated[Path | None, typer.Option()] = None,
    way: Annotated[Literal["sharp", "paper"], typer.Option()] = "sharp",
    sizes: Annotated[list[float] | None, typer.Option()] = None,
) -> None:
    typer.echo(repr((text, size, number, path, way, sizes)))


def run(kind: type[TyperCommand], *words: str) -> tuple[int, str]:
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(cls=kind)(command)
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


@pytest.mark.parametrize("option", [*KINDS, "sizes"])
def test_a_value_is_what_typer_reads(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.toml").touch()
    (tmp_path / "loose").symlink_to("nowhere")
    texts = [
        "", " ", "0", "7", "007", "0.1", "1.", ".5", "1e-3", "-2", "+3", "1_000", "\u0661", "nan", "inf", "2.0", " 4 ",
        "123456789012345678901234567890", "0.1000000000000000055", "999999999999999.9", "sharp", "Sharp", "there.toml",
        "missing/file", "loose", ".", "ä b", "\0",
    ]  # fmt: skip
    plainly = 0
    for text in texts:
        assert run(PlainCommand, f"--{option}={text}") == run(TyperCommand, f"--{option}={text}")
        plainly += option in KINDS and read_plainly(KINDS[option], text) is not None
    assert run(PlainCommand) == run(TyperCommand)
    assert plainly or option == "sizes"  # otherwise this test compares Typer with itself


def test_an_unreadable_file_is_left_to_typer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed.toml").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for a user who may not read it; root may read everything
    given = f"--path={tmp_path / 'closed.toml'}"
    assert run(PlainCommand, given) == run(TyperCommand, given)
    assert run(PlainCommand, given)[0] == 2
