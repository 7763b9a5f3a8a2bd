"""dosimeter serve and dosimeter user, as an operator types them."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from dosimeter.cli import commands
from dosimeter.errors import OptionError
from tests.known import known
from tests.waiting import LONGEST_WAIT, wait_until
from tests.web.check_program import PROGRAM, Slow, is_running
from tests.web.web_site import CERTIFICATES, Guest, read_text, write_configuration

RUN = "import sys; from dosimeter.cli import commands; commands(sys.argv[1:])"


def run_command(*words: str) -> str:
    """Run a command of an operator; return what it prints."""
    return CliRunner().invoke(commands, words, catch_exceptions=False).output


def test_users_come_and_go(tmp_path: Path) -> None:
    config = ("--config", str(write_configuration(tmp_path)))
    assert json.loads(run_command("user", "add", "Ada", "--role", "analyst", "--json", *config))["name"] == "ada"
    wrong = (("ada", "analyst", "already"), ("eve", "king", "analyst, controller"), ("e v e", "analyst", "digits"))
    for name, role, words in wrong:
        with pytest.raises(OptionError, match=words):
            run_command("user", "add", name, "--role", role, *config)
    assert re.search(r"ada signs in with the password \S{20}", run_command("user", "reset", "ada", *config))
    run_command("user", "disable", "ada", *config)
    assert re.fullmatch(r"ada\s+analyst\s+disabled\n", run_command("user", "list", *config))
    with pytest.raises(OptionError, match="no user nobody"):
        run_command("user", "disable", "nobody", *config)


def test_secret_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    run_command("user", "secret", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_text().strip()) >= 32
    with pytest.raises(OptionError, match="exists already"):
        run_command("user", "secret", str(path))


@pytest.mark.parametrize("arguments", [[], ["--demo", "--config", "x.toml"]])
def test_serve_wants_one_thing(arguments: list[str]) -> None:
    with pytest.raises(OptionError, match="--config FILE, or --demo"):
        run_command("serve", *arguments)


def start(*arguments: str, program: str = RUN) -> tuple[subprocess.Popen[str], list[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    if "demonstration" in lines[0]:
        lines += [process.stdout.readline() for _ in range(3)]
    return process, lines


def sign_in(url: str, name: str, password: str) -> Guest:
    guest = Guest(base_url=url, follow_redirects=True, timeout=LONGEST_WAIT, verify=CERTIFICATES)

    def answers() -> bool:
        try:
            return bool(guest.sign_in(name, password))
        except httpx.TransportError:
            return False

    wait_until(answers, "the server answers")
    return guest


def measure(guest: Guest, query_id: str) -> None:
    """Wait until the risk is measured, however busy the machine is."""
    wait_until(lambda: guest.get(f"/decide/{query_id}/live").json()["job"] is None, "the risk is measured")


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(LONGEST_WAIT)
    assert process.stdout is not None
    process.stdout.close()


DEMO = (
    "from dosimeter.web import state; from dosimeter.web.check_processes import CheckLimits, CheckProcesses;"
    f"state.CheckProcesses = lambda: CheckProcesses(program={PROGRAM!r}, limits=CheckLimits(1e6, 1e6));{RUN}"
)


def test_demo_tells_its_whole_story_and_stops_at_once(slow: Slow) -> None:
    """SIGTERM comes while a check runs that would run for good."""
    process, lines = start("serve", "--demo", "--port", "0", program=DEMO)
    try:
        url = known(re.search(r"http://\S+", lines[0]))
        people = {words[0]: words[1:] for words in (line.split() for line in lines[1:3])}
        assert set(people) == {"controller", "analyst"}
        with sign_in(url[0], *people["controller"]) as carol, sign_in(url[0], *people["analyst"]) as anna:
            queue = carol.get("/queue").text
            waiting = list(dict.fromkeys(re.findall(r"/decide/(\w+)", queue)))
            assert len(waiting) == 4
            for query in waiting:  # its way to ε is sound: a query opens without its risk, and looking goes on record
                assert "Decide without looking" in read_text(carol.get(f"/decide/{query}").text)
                carol.act(f"/decide/{query}/look")
                measure(carol, query)
            assert all(
                "What an attacker could learn" in read_text(carol.get(f"/decide/{query}").text) for query in waiting
            )
            assert anna.get("/queries").text.count("/queries/") >= 4
            statuses: list[int] = []

            def check() -> None:
                statuses.append(anna.act("/ask/check", dataset="clinic", sql=slow.sql).status_code)

            thread = threading.Thread(target=check)
            thread.start()
            wait_until(lambda: slow.begun, "the check runs")
            (pid,) = slow.begun
            process.send_signal(signal.SIGTERM)
            process.wait(LONGEST_WAIT)
            thread.join()
        assert statuses == [503]
        assert not is_running(pid)
    finally:
        end(process)


def test_a_configured_server_serves_those_whom_the_operator_added(tmp_path: Path) -> None:
    """With passwords as they are really stored; a server that starts again is for test_web_crash.py."""
    config = write_configuration(tmp_path, "port = 0")
    passwords = {}
    for name, role in (("carol", "controller"), ("anna", "analyst")):
        made = run_command("user", "add", name, "--role", role, "--json", "--config", str(config))
        passwords[name] = json.loads(made)["password"]
    process, lines = start("serve", "--config", str(config))
    try:
        url = lines[0].split()[-1]
        with sign_in(url, "anna", passwords["anna"]) as anna, sign_in(url, "carol", passwords["carol"]) as carol:
            query = anna.ask()
            assert "Answered" in carol.approve(query).text
        assert stat.S_IMODE((tmp_path / "site.db").stat().st_mode) == 0o600
    finally:
        end(process)
