"""A file's bytes are digested once per state of the file, and anew after any change to it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from dosimeter.engines import ReadOptions, file_digests
from dosimeter.engines.engine import digest_alike, digest_files
from dosimeter.engines.file_digests import digest_bytes


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often bytes were read."""
    count = [0]
    digest = hashlib.file_digest

    def counting(stream: Any, name: str) -> Any:
        count[0] += 1
        return digest(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", counting)
    return count


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a file that was just written for one that was written long ago."""
    monkeypatch.setattr(file_digests, "SETTLED_NS", -(10**18))


@pytest.mark.usefixtures("settled")
def test_bytes_are_read_once_per_state(tmp_path: Path, reads: list[int]) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"x\n1\n")
    expected = hashlib.sha256(b"x\n1\n").digest()
    assert [digest_bytes(str(path)) for _ in range(3)] == [expected] * 3
    assert reads == [1]
    (tmp_path / "other.csv").hardlink_to(path)  # the same file, but a link changes the inode
    assert digest_bytes(str(tmp_path / "other.csv")) == expected
    assert digest_bytes(str(path)) == expected
    assert reads == [2]


@pytest.mark.usefixtures("settled")
def test_a_change_that_hides_its_time_is_noticed(tmp_path: Path, reads: list[int]) -> None:
    """The same size, and the time of change set back: the inode's own time cannot be set."""
    path = tmp_path / "data.csv"
    path.write_bytes(b"x\n1\n")
    before = digest_bytes(str(path))
    times = path.stat()
    path.write_bytes(b"x\n2\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_mtime_ns == times.st_mtime_ns
    assert digest_bytes(str(path)) == hashlib.sha256(b"x\n2\n").digest() != before
    assert reads == [2]


@pytest.mark.usefixtures("settled")
def test_another_file_in_its_place_is_noticed(tmp_path: Path, reads: list[int]) -> None:
    path, other = tmp_path / "data.csv", tmp_path / "other.csv"
    path.write_bytes(b"x\n1\n")
    other.write_bytes(b"x\n3\n")
    digest_bytes(str(path))
    other.replace(path)
    assert digest_bytes(str(path)) == hashlib.sha256(b"x\n3\n").digest()
    assert reads == [2]


def test_a_file_that_just_changed_is_read_again(tmp_path: Path, reads: list[int]) -> None:
    """Within a tick of the clock a second change would leave all times as they are."""
    path = tmp_path / "data.csv"
    path.write_bytes(b"x\n1\n")
    for _ in range(2):
        digest_bytes(str(path))
    assert reads == [2]


@pytest.mark.usefixtures("settled")
def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[int]
) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"x\n1\n")
    digest = hashlib.file_digest

    def append_meanwhile(stream: Any, name: str) -> Any:
        found = digest(stream, name)
        with path.open("ab") as more:
            more.write(b"2\n")
        return found

    monkeypatch.setattr(hashlib, "file_digest", append_meanwhile)
    digest_bytes(str(path))
    monkeypatch.setattr(hashlib, "file_digest", digest)
    assert digest_bytes(str(path)) == hashlib.sha256(b"x\n1\n2\n").digest()
    assert reads == [2]


@pytest.mark.usefixtures("settled")
def test_few_digests_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_digests, "MOST_KEPT", 2)
    for number in range(5):
        (tmp_path / str(number)).write_text(str(number))
        digest_bytes(str(tmp_path / str(number)))
    assert len(file_digests._kept) <= 2


def test_options_that_mean_the_same_read_a_file_that_was_just_written_once(tmp_path: Path, reads: list[int]) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"x;y\n1;2\n")
    alike = digest_alike("csv", [str(path)], ReadOptions())
    assert reads == [1]
    assert digest_files("csv", [str(path)], ReadOptions(table="data", delimiter=";", encoding="utf-8")) in alike
    assert digest_files("csv", [str(path)], ReadOptions(delimiter=",")) not in alike
