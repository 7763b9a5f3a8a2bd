"""Run the recorded commands, story by story, and write down what they print.

A story is a few commands that share a directory, in order. ``stories/*.toml`` lists them; ``outputs/NAME.json`` holds
what each of them printed. A story has a ``name``, the ``files`` it needs (``recorded_files.py`` makes them), perhaps
``run``, and ``commands``:

  ``id``       what it is called; in its place ``do`` names a step that is no command, such as changing the data
  ``run``      the command line, in which ``{sql}`` stands for ``sql``; the story's ``run`` where it has none
  ``more``     words to put at its end
  ``status``   the exit status that is expected; 0 where nothing is said
  ``exact``    the answers are without noise, because ε is enormous: they are kept (also of a whole story)
  ``noisy``    further keys whose numbers hang on the noise (also of a whole story)
  ``like``     the id of an earlier command whose very answer, with its noise, is to come back
  ``written``  a file that it writes, recorded too
  ``stdin``    what it can read; ``raises`` is the error that reading ends with

Only the entry point of the command line is imported from the package: whatever moves inside of it, the same is asked.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shlex
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from dosimeter.cli import main
from tests.recorded.recorded_files import FILES, STEPS
from tests.recorded.recorded_mask import Mask

HERE = Path(__file__).parent
OUTPUTS = HERE / "outputs"
LINE = 220
PICTURES = {".svg": b"<svg", ".png": b"\x89PNG", ".html": b"<!doctype"}
ERRORS = {"KeyboardInterrupt": KeyboardInterrupt, "RuntimeError": RuntimeError}


@dataclass(frozen=True)
class Story:
    name: str
    files: tuple[str, ...]
    commands: tuple[dict[str, Any], ...]
    run: str = ""
    exact: bool = False
    noisy: tuple[str, ...] = ()


def read_stories() -> dict[str, Story]:
    """Return every story by its name. Names, and the ids within a story, are given once."""
    stories: dict[str, Story] = {}
    for path in sorted((HERE / "stories").glob("*.toml")):
        for facts in tomllib.loads(path.read_text(encoding="utf-8"))["story"]:
            lists = {name: tuple(value) for name, value in facts.items() if isinstance(value, list)}
            story = Story(**{**facts, **lists})
            ids = list_ids(story)
            assert story.name not in stories, f"two stories are called {story.name}"
            assert len(set(ids)) == len(ids), f"{story.name}: an id is there twice"
            stories[story.name] = story
    return stories


def list_ids(story: Story) -> list[str]:
    return [command["id"] for command in story.commands if "id" in command]


def tell_story(story: Story, directory: Path) -> dict[str, Any]:
    """Run the commands of a story in an empty directory. Return what each came to, by its id."""
    told: dict[str, Any] = {}
    mask = Mask()
    answers: dict[str, Any] = {}
    with contextlib.chdir(directory), mock.patch.dict(os.environ):
        os.environ.pop("DOSIMETER_DEBUG", None)
        for name in story.files:
            FILES[name]()
        for command in story.commands:
            if "do" in command:
                STEPS[command["do"]]()
            else:
                told[command["id"]] = _run_command(story, command, mask, answers)
    return told


def _run_command(story: Story, command: dict[str, Any], mask: Mask, answers: dict[str, Any]) -> dict[str, Any]:
    words = [mask.resolve(word) for word in list_words(story, command)]
    output, errors = io.StringIO(), _Errors()
    given = _Given(command.get("stdin", ""), command.get("raises"))
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
        mock.patch.object(sys, "stdin", given),
    ):
        status = main(words)
    assert status == command.get("status", 0), f"{words}: status {status}"
    how: dict[str, Any] = {
        "exact": command.get("exact", story.exact),
        "noisy": frozenset(command.get("noisy", story.noisy)),
    }
    outcome: dict[str, Any] = {"status": status} | errors.describe()
    if output.getvalue():
        document = _read_output(output.getvalue())
        answers[command["id"]] = document.get("answer") if isinstance(document, dict) else None
        if "like" in command:
            assert answers[command["id"]] == answers[command["like"]] is not None, f"{words}: another answer"
        outcome["out"] = mask.apply(document, **how)
    if "written" in command:
        outcome["written"] = mask.apply(_read_written(Path(command["written"])), **how)
    return outcome


def list_words(story: Story, command: dict[str, Any]) -> list[str]:
    """Return the words of the command line."""
    words = shlex.split(command.get("run", story.run)) + shlex.split(command.get("more", ""))
    return [command["sql"] if word == "{sql}" else word for word in words]


class _Errors(io.StringIO):
    """Standard error. What is written while an error is handled is that error's message: its kind is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def write(self, text: str) -> int:
        self.error = sys.exception() or self.error
        return super().write(text)

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {}
        if self.error is not None:
            described["error"] = type(self.error).__name__
            clause = getattr(self.error, "clause", None)
            if clause is not None:
                described["clause"] = clause if len(clause) <= 200 else f"{clause[:200]}…"
        lines = len(self.getvalue().splitlines())
        return described | ({"lines on standard error": lines} if lines else {})


class _Given(io.StringIO):
    """Standard input, which may end with an error."""

    def __init__(self, text: str, raises: str | None) -> None:
        super().__init__(text)
        self._raises = raises

    def read(self, size: int | None = -1) -> str:
        if self._raises is not None:
            raise ERRORS[self._raises]
        return super().read(size)


def _read_output(text: str) -> Any:
    """Return one JSON document, or the documents of JSON Lines; of text for people only that there is some."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return "<text>"


def _read_written(path: Path) -> Any:
    suffix = path.suffix
    if suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as stream:
            return [{name: float(cell) for name, cell in row.items()} for row in csv.DictReader(stream)]
    if suffix == ".parquet":
        from pyarrow import parquet

        return parquet.read_table(path).to_pylist()
    if suffix == ".toml":
        return json.loads(json.dumps(tomllib.loads(path.read_text(encoding="utf-8")), default=str))
    if suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = path.read_bytes().lower().startswith(PICTURES[suffix].lower())
    return f"<a picture, {suffix}>" if found else "<something else>"


# ---------------------------------------------------------------- the recordings


def read_recording(name: str) -> dict[str, Any]:
    return dict(json.loads((OUTPUTS / f"{name}.json").read_text(encoding="utf-8")))


def record_stories(names: list[str]) -> list[str]:
    """Write the recordings of these stories again, of all where none is named. Return a line for each."""
    stories = read_stories()
    unknown = [name for name in names if name not in stories]
    if unknown:
        raise SystemExit(f"There is no story {', '.join(unknown)}. There are: {', '.join(stories)}.")
    OUTPUTS.mkdir(exist_ok=True)
    if not names:
        for path in OUTPUTS.glob("*.json"):
            path.unlink()
    lines = []
    for name in names or stories:
        with tempfile.TemporaryDirectory() as directory:
            told = tell_story(stories[name], Path(directory))
        (OUTPUTS / f"{name}.json").write_text(write_document(told) + "\n", encoding="utf-8")
        lines.append(f"{name}: {len(told)} commands")
    return lines


def write_document(value: Any, indent: int = 0) -> str:
    """Write JSON with a line for everything that fits into one, so that a difference shows on few lines."""
    short = json.dumps(value, ensure_ascii=False)
    if len(short) + indent <= LINE or not isinstance(value, (dict, list)):
        return short
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        items = [
            f"{json.dumps(key, ensure_ascii=False)}: {write_document(item, indent + 1)}" for key, item in value.items()
        ]
        opened, closed = "{", "}"
    else:
        items = [write_document(item, indent + 1) for item in value]
        opened, closed = "[", "]"
    body = f",\n{inner}".join(items)
    return f"{opened}\n{inner}{body}\n{' ' * indent}{closed}"
