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


def test_skips_fail_on_demand(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fixture, a mark or a module skips was never called: an error of its set-up."""
    monkeypatch.setenv("DOSIMETER_REQUIRE_ALL", "1")
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    waiting = WAITING.read_text(encoding="utf-8")
    absent = "import pytest\npytest.importorskip('there_is_no_such_module')\n"
    pytester.makepyfile(**{"tests/__init__": "", "tests/waiting": waiting, "test_absent": absent, "test_skips": SKIPS})
    result = pytester.runpytest_subprocess("-rA", "-p", "no:cacheprovider", "--continue-on-collection-errors")
    result.assert_outcomes(passed=1, failed=1, errors=3, xfailed=1)
    for reason in ("no such file", "marked so", "gave up", "there_is_no_such_module"):
        result.stdout.fnmatch_lines(f"*{reason}*")
