"""Fetching and reading Adult: checksums, offline, and every form the table comes in. No test leaves this machine."""

from __future__ import annotations

import csv
import functools
import hashlib
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.compute as pc
import pytest

from dosimeter.errors import DataError, OptionError
from dosimeter_paper.reproduction import data
from dosimeter_paper.reproduction.data import COLUMNS, ArchiveFile, adult_schema, fetch_adult, load_adult
from dosimeter_paper.reproduction.generate import SHIFTED, generate_adult
from reproduction.paper_command import Paper

ROW = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
TRAINING = f"{ROW}United-States, <=50K\n{ROW}?, >50K\n\n"
TEST = f"|1x3 Cross validator\n{ROW}United-States, >50K.\n\n"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A folder that looks like the archive's."""
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "adult.data").write_text(TRAINING, encoding="utf-8")
    (folder / "adult.test").write_text(TEST, encoding="utf-8")
    return folder


def describe(folder: Path) -> list[ArchiveFile]:
    contents = {name: (folder / name).read_bytes() for name in ("adult.data", "adult.test")}
    return [ArchiveFile(name, len(c), hashlib.sha256(c).hexdigest()) for name, c in contents.items()]


@pytest.fixture
def server(archive: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    serving = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(archive)))
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{serving.server_address[1]}/"
    serving.shutdown()
    serving.server_close()


def test_checksums_are_those_of_the_archive(adult: Path) -> None:
    """The archive's two files, written again from the table as they have been since 1996, to the byte."""
    with adult.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))[1:]
    training = "".join(", ".join(row) + "\n" for row in rows[:32_561]) + "\n"
    test = "|1x3 Cross validator\n" + "".join(", ".join(row) + ".\n" for row in rows[32_561:]) + "\n"
    for text, known in zip((training, test), data.ARCHIVE_FILES, strict=True):
        assert len(text) == known.size
        assert hashlib.sha256(text.encode()).hexdigest() == known.sha256


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_files_are_fetched_checked_and_kept(scheme: str, archive: Path, server: str, tmp_path: Path) -> None:
    source = archive.as_uri() if scheme == "file" else server
    files = describe(archive)
    first = fetch_adult(tmp_path / "here", source=source, files=files)
    assert [f.fresh for f in first] == [True, True]
    assert (tmp_path / "here" / "adult.data").read_text(encoding="utf-8") == TRAINING
    again = fetch_adult(tmp_path / "here", source="http://127.0.0.1:9/", files=files)  # nobody is asked again
    assert [f.fresh for f in again] == [False, False]


@pytest.mark.parametrize("change", ["other", "longer", "shorter"])
def test_a_file_that_is_not_the_archives_is_refused(change: str, archive: Path, tmp_path: Path) -> None:
    files = describe(archive)
    altered = {"other": "x" + TRAINING[1:], "longer": TRAINING + "x", "shorter": TRAINING[:-1]}[change]
    (archive / "adult.data").write_text(altered, encoding="utf-8")
    with pytest.raises(DataError, match=r"not the file of the archive.*Nothing was kept"):
        fetch_adult(tmp_path / "here", source=archive.as_uri(), files=files)
    assert list((tmp_path / "here").iterdir()) == []


def test_a_damaged_file_is_fetched_again(archive: Path, tmp_path: Path) -> None:
    files = describe(archive)
    fetch_adult(tmp_path / "here", source=archive.as_uri(), files=files)
    (tmp_path / "here" / "adult.data").write_text("damaged", encoding="utf-8")
    assert [f.fresh for f in fetch_adult(tmp_path / "here", source=archive.as_uri(), files=files)] == [True, False]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("http://127.0.0.1:9/", "there is no connection"),
        ("file:///there/is/no/such/folder", "there is no such file"),
    ],
)
def test_offline_is_said_with_what_to_do(paper: Paper, source: str, reason: str, tmp_path: Path) -> None:
    ended = paper("data", "--from", source, "-o", tmp_path)
    assert ended.status == 2
    assert reason in ended.err
    assert "--data" in ended.err


def test_a_missing_file_on_a_server_is_said(server: str, archive: Path, tmp_path: Path) -> None:
    files = describe(archive)
    (archive / "adult.test").unlink()
    with pytest.raises(DataError, match="the server answered 404"):
        fetch_adult(tmp_path / "here", source=server, files=files)


def test_other_addresses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="https://"):
        fetch_adult(tmp_path, source="ftp://example.org/")


def test_both_splits_are_read(archive: Path) -> None:
    training, everything = load_adult(archive), load_adult(archive, split="all")
    assert (training.num_rows, everything.num_rows) == (2, 3)
    assert everything.column_names == list(COLUMNS)
    assert everything.column("income").to_pylist() == ["<=50K", ">50K", ">50K"]
    assert everything.column("age").to_pylist() == [39, 39, 39]
    assert load_adult(archive / "adult.data").equals(training)


def test_headers_may_be_written_in_other_ways(archive: Path, tmp_path: Path) -> None:
    path = tmp_path / "adult.csv"
    header = ",".join(reversed(COLUMNS)).replace("_", ".").upper()
    rows = "\n".join(",".join(reversed(line.split(", "))) for line in TRAINING.strip().splitlines())
    path.write_text(f"{header}\n{rows}\n", encoding="utf-8")
    assert load_adult(path).equals(load_adult(archive))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age,income\n39,<=50K\n", "lacks the columns workclass, fnlwgt"),
        (TRAINING.replace("77516", "many"), "fnlwgt holds something that is not a whole number"),
        ("39, State-gov\n", "15 columns were expected"),
        ("\n", "holds no records"),
    ],
)
def test_what_is_not_adult_is_refused_without_quoting_it(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "adult.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message) as refused:
        load_adult(path)
    assert "many" not in str(refused.value)


def test_without_data_the_command_says_how_to_get_it(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ended = paper("thresholds")
    assert ended.status == 2
    assert "dosimeter paper data" in ended.err


def test_schema_holds_everybody(adult_train: Path) -> None:
    """The declared facts contradict no record of Adult."""
    table = load_adult(adult_train)
    for name, column in adult_schema(table.num_rows).columns.items():
        if column.bounds is not None:
            found = pc.min_max(table.column(name)).as_py()
            assert column.bounds[0] <= found["min"] <= found["max"] <= column.bounds[1], name
        if column.values is not None:
            assert set(table.column(name).unique().to_pylist()) <= set(column.values), name


# ---------------------------------------------------------------- the larger tables


def test_small_tables_are_samples(adult_train: Path) -> None:
    table = load_adult(adult_train)
    sample = generate_adult(table, 1000, seed=3)
    assert sample.num_rows == 1000
    assert sample.equals(generate_adult(table, 1000, seed=3))
    assert not sample.equals(generate_adult(table, 1000, seed=4))
    known = {tuple(row.values()) for row in table.to_pylist()}
    assert all(tuple(row.values()) in known for row in sample.to_pylist())


def test_large_tables_are_shifted_copies(archive: Path) -> None:
    """Every copy moves each of the four columns by one step up or down, all of it; sex is swapped as a whole or not."""
    table = load_adult(archive)  # two records
    large = generate_adult(table, 201)
    assert large.num_rows == 201
    shifts, swaps = set(), set()
    for copy in range(1, 100):
        part = large.slice(2 * copy, 2)
        for name in COLUMNS:
            before, after = table.column(name).to_pylist(), part.column(name).to_pylist()
            if name in SHIFTED:
                moved = {b - a for a, b in zip(before, after, strict=True)}
                assert len(moved) == 1
                shifts |= {(name, *moved)}
            elif name == "sex":
                assert after in (["Male", "Male"], ["Female", "Female"])
                swaps.add(after[0])
            else:
                assert before == after
    assert shifts == {(name, step) for name in SHIFTED for step in (-1, 1)}  # 99 copies: missing one has chance 2⁻⁹⁶
    assert swaps == {"Male", "Female"}


def test_no_records_are_refused(archive: Path) -> None:
    with pytest.raises(OptionError, match="at least 1"):
        generate_adult(load_adult(archive), 0)
