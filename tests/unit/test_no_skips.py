"""DOSIMETER_REQUIRE_ALL=1 turns every kind of skip into a failure that gives the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[2] / "conftest.py"
WAITING = Path(__file__).parents[1] / "waiting.py"
SKIPS = """
    import pytest

    @pytest.fixture
    def absent():
        pytest.skip("no such file")

    def test_in_fixture(absent):
        pass

    @pytest.mark.skip(reason="marked so")
    def test_by_mark():
        pass

    def test_in_body():
        pytest.skip("gave up")

    @pytest.mark.xfail(reason="known", strict=True)
    def test_expected_failure():
        assert False

    def test_passes():
        pass
"""


def copy_conftest(pytester: pytest.Pytester) -> None:
    """The conftest of these tests, and the module that it imports."""
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.makepyfile(**{"tests/__init__": "", "tests/waiting": WAITING.read_text(encoding="utf-8")})


@pytest.mark.parametrize(
    ("require_all", "expected"),
    [
        ("0", {"passed": 1, "skipped": 3, "xfailed": 1}),
        # What a fixture or a mark skips was never called: an error of its set-up.
        ("1", {"passed": 1, "failed": 1, "errors": 2, "xfailed": 1}),
    ],
)
def test_skips_fail_on_demand(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, require_all: str, expected: dict[str, int]
) -> None:
    monkeypatch.setenv("DOSIMETER_REQUIRE_ALL", require_all)
    copy_conftest(pytester)
    pytester.makepyfile(SKIPS)
    result = pytester.runpytest_subprocess("-rA", "-p", "no:cacheprovider")
    result.assert_outcomes(**expected)
    for reason in ("no such file", "marked so", "gave up"):
        result.stdout.fnmatch_lines(f"*{reason}*")


def test_a_module_that_skips_itself_fails_on_demand(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOSIMETER_REQUIRE_ALL", "1")
    copy_conftest(pytester)
    pytester.makepyfile("import pytest\npytest.importorskip('there_is_no_such_module')\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines("*there_is_no_such_module*")
