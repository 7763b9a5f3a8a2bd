"""Time the web application: analysts submit and poll while a controller works, on SQLite and on PostgreSQL; and how
quickly the decision page follows the slider on a table of many people, by its responses and in a real Chromium. The
server is a process of its own.

    python bench/web.py                      50 analysts for 20 seconds on SQLite, then the slider on a million people
    python bench/web.py --seconds 0          the slider alone
    python bench/web.py --postgres URL       the same on an empty PostgreSQL database
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from dosimeter.web.identity.users import add_user, make_token
from dosimeter.web.store.database import Database
from dosimeter.web.store.keys import make_key
from dosimeter.web.store.tables import USERS
from dosimeter.web.store.user import User

START = (
    "import sys, pathlib; from dosimeter.web.run import serve; from dosimeter.web.settings import load_settings;"
    "serve(load_settings(pathlib.Path(sys.argv[1])), lambda address: print(address, flush=True))"
)
PASSWORD = "correct horse battery"
LONGEST_WAIT = 300.0  # seconds for one response; ends a run that hangs
CERTIFICATES = httpx.create_ssl_context()  # read once: reading them takes longer than most answers


class Stopwatch:
    """Collects seconds per kind of request, from any thread."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.failures: dict[str, int] = defaultdict(int)

    def call(self, kind: str, client: httpx.Client, method: str, path: str, **options: Any) -> httpx.Response:
        begin = time.perf_counter()
        response = client.request(method, path, **options)
        self.seconds[kind].append(time.perf_counter() - begin)
        if response.status_code >= 400:
            self.failures[f"{kind}: {response.status_code}"] += 1
        return response

    def report(self, title: str) -> dict[str, Any]:
        print(title)
        document: dict[str, Any] = {}
        for kind, seconds in sorted(self.seconds.items()):
            half, most = np.percentile(seconds, [50, 95]) * 1000
            document[kind] = {"n": len(seconds), "p50_ms": round(half, 1), "p95_ms": round(most, 1)}
            print(f"  {kind:<12} n = {len(seconds):>5}   p50 {half:8.1f} ms   p95 {most:8.1f} ms")
        for failure, count in self.failures.items():
            print(f"  failed       {failure} ({count} times)")
        document["failures"] = sum(self.failures.values())
        return document


def prepare(folder: Path, database: str, dataset: str, analysts: int) -> dict[str, str]:
    """Write the configuration and add users; return the analysts' tokens."""
    (folder / "secret").write_text(make_key())
    (folder / "dosimeter.toml").write_text(
        f'database = "{database}"\nsecret_file = "secret"\nport = 0\nsession_hours = 1\n'
        f"queries_per_minute = 100000\n{dataset}"
    )
    opened = Database(database)
    try:
        opened.migrate()
        add_user(opened, "carol", "controller", PASSWORD)
        with opened.writing() as connection:
            carol = connection.execute(USERS.select().where(USERS.c.name == "carol")).one()._asdict()
            users = [User(f"{number:032x}", f"analyst{number}", "analyst") for number in range(analysts)]
            for user in users:  # with carol's hash: making one takes long, on purpose
                connection.execute(USERS.insert().values(carol | {"id": user.id, "name": user.name, "role": user.role}))
        return {user.name: make_token(opened, user, "bench") for user in users}
    finally:
        opened.close()


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-c", START, str(folder / "dosimeter.toml")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        while process.poll() is None:
            try:
                httpx.get(f"{address}/health", timeout=LONGEST_WAIT)
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait(LONGEST_WAIT)


def sign_in(address: str) -> httpx.Client:
    client = httpx.Client(base_url=address, follow_redirects=True, timeout=LONGEST_WAIT, verify=CERTIFICATES)
    form = client.get("/sign-in").text
    token = re.search(r'name="csrf" value="([^"]+)"', form)
    assert token is not None
    page = client.post("/sign-in", data={"csrf": token[1], "name": "carol", "password": PASSWORD}).text
    found = re.search(r'X-CSRF-Token": "([^"]+)"', page)
    assert found is not None
    client.headers["X-CSRF-Token"] = found[1]
    return client


def analyse(address: str, token: str, number: int, until: float, watch: Stopwatch) -> None:
    """Submit queries one after the other, at least one; ask every quarter of a second whether each is decided."""
    headers = {"Authorization": f"Bearer {token}"}
    options: dict[str, Any] = {"headers": headers, "timeout": LONGEST_WAIT, "verify": CERTIFICATES}
    with httpx.Client(base_url=f"{address}/api/v1", **options) as client:
        asked = 0
        while not asked or time.monotonic() < until:
            sql = f"SELECT COUNT(*) FROM clinic WHERE age = {number} AND visits = {asked % 50}"
            document = {
                "dataset": "clinic",
                "sql": sql,
                "purpose": "bench",
                "priority": ("low", "normal", "high")[number % 3],
            }
            query = watch.call("submit", client, "POST", "/queries", json=document).json()["id"]
            asked += 1
            for _ in range(20):
                time.sleep(0.25)
                status = watch.call("poll", client, "GET", f"/queries/{query}").json()["status"]
                if status != "waiting" or time.monotonic() > until:
                    break


def control(address: str, until: float, watch: Stopwatch) -> None:
    """Decide queries until the time is over, at least one: open the first in the queue, move the slider, approve."""
    with closing(sign_in(address)) as client:
        while time.monotonic() < until or "approve" not in watch.seconds:
            queue = watch.call("queue", client, "GET", "/queue").text
            waiting = re.search(r'href="/decide/(\w+)"', queue)
            if waiting is None:
                time.sleep(0.05)
                continue
            page = f"/decide/{waiting[1]}"
            watch.call("decide", client, "GET", page)
            for epsilon in ("0.04", "0.03", "0.02", "0.01"):
                watch.call("live", client, "GET", f"{page}/live", params={"epsilon": epsilon})
            fields = {"epsilon": "0.001", "preference": "ratio:0.9", "confirmed": "0.001", "reason": "agreed"}
            fields["looser"] = "true"  # whatever the priority of the query that came first
            watch.call("approve", client, "POST", f"{page}/approve", data=fields)


def bench_load(database: str, folder: Path, analysts: int, seconds: float, title: str) -> dict[str, Any]:
    bundled = resources.files("dosimeter") / "data"
    dataset = (
        f'[datasets.clinic]\ndata = "{bundled / "clinic.csv"}"\nschema = "{bundled / "clinic.toml"}"\n'
        'policy = "budget:1000"\nalgorithm = "find"\n'
    )
    tokens = prepare(folder, database, dataset, analysts)
    watch = Stopwatch()
    with serving(folder) as address:
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=analyse, args=(address, token, number, until, watch))
            for number, token in enumerate(tokens.values())
        ]
        threads.append(threading.Thread(target=control, args=(address, until, watch)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return watch.report(title)


STEP = """([epsilon, index]) => new Promise((resolve) => {
  const slider = document.getElementById("slider");
  const begin = performance.now();
  const watch = new MutationObserver(() => {
    if (document.body.dataset.shown !== epsilon) return;
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begin), 0));
  });
  watch.observe(document.body, { attributes: true, attributeFilter: ["data-shown"] });
  slider.value = index;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""  # from the slider's event until everything that follows it is replaced, and painted


def step_in_chromium(address: str, queries: list[str], people: int) -> dict[str, Any]:
    """Move the slider over every candidate and back, one step after the other, and wait for each to be painted."""
    from playwright.sync_api import sync_playwright

    document: dict[str, Any] = {}
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        page = browser.new_page(base_url=address, viewport={"width": 1400, "height": 900})
        page.set_default_timeout(1000 * LONGEST_WAIT)
        page.goto("/sign-in")
        page.fill("[name=name]", "carol")
        page.fill("[name=password]", PASSWORD)
        page.click("main button")
        page.wait_for_url("**/queue")
        for query in queries:
            watch = Stopwatch()
            page.goto(f"/decide/{query}")
            page.wait_for_selector("body[data-shown]")
            page.wait_for_load_state("networkidle")
            candidates = page.eval_on_selector("#slider", "element => element.dataset.candidates").split(",")
            places = [*range(len(candidates)), *range(len(candidates) - 2, -1, -1)]
            for place in places:
                if page.eval_on_selector("body", "element => element.dataset.shown") != candidates[place]:
                    taken = page.evaluate(STEP, [candidates[place], place])
                    watch.seconds["painted"].append(taken / 1000)
            document[query] = watch.report(f"in Chromium, {people:,} people")
        browser.close()
    return document


def bench_slider(folder: Path, people: int) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import parquet

    places = np.arange(people, dtype=np.int64)  # multiplied below: spread out like random numbers, the same every time
    spread = (places * 2654435761) % people
    cost = np.round(50_000 * (spread / people) ** 3, 2)
    table = pa.table({"age": 17 + spread % 74, "cost": cost, "sex": np.where(spread % 7 < 3, "Female", "Male")})
    parquet.write_table(table, folder / "people.parquet")
    (folder / "people.toml").write_text(
        f'table = "people"\nindividuals = {people}\nreviewed = true\n'
        '[columns.age]\ntype = "integer"\nbounds = [17, 90]\n'
        '[columns.cost]\ntype = "decimal"\nbounds = [0, 50000]\nresolution = 0.01\n'
        '[columns.sex]\ntype = "category"\nvalues = ["Female", "Male"]\n'
    )
    dataset = (
        '[datasets.people]\ndata = "people.parquet"\nschema = "people.toml"\npolicy = "budget:10"\nalgorithm = "find"\n'
    )
    tokens = prepare(folder, str(folder / "slider.db"), dataset, 1)
    document: dict[str, Any] = {}
    asked: dict[str, str] = {}
    with serving(folder) as address, closing(sign_in(address)) as client:
        for sql in ("SELECT COUNT(*) FROM people WHERE age = 25", "SELECT sex, SUM(cost) FROM people GROUP BY sex"):
            watch = Stopwatch()
            headers = {"Authorization": f"Bearer {next(iter(tokens.values()))}"}
            body = {"dataset": "people", "sql": sql, "purpose": "bench"}
            query = httpx.post(f"{address}/api/v1/queries", json=body, headers=headers, timeout=LONGEST_WAIT).json()[
                "id"
            ]
            asked[query] = sql
            begin = time.perf_counter()
            while 'id="slider"' not in client.get(f"/decide/{query}").text:
                time.sleep(0.1)
            print(f"\n{sql}: page ready after {time.perf_counter() - begin:.1f} s")
            for epsilon in ("10", "5", "1", "0.7", "0.3", "0.1", "0.05", "0.03", "0.01", "0.001") * 3:
                watch.call("slider", client, "GET", f"/decide/{query}/live", params={"epsilon": epsilon})
            for percent in range(80, 100):
                watch.call("ratio", client, "GET", f"/decide/{query}/live", params={"percent": percent})
                form = {"preset": "variance", "tau": percent * 1e-7}
                watch.call("variance", client, "GET", f"/decide/{query}/live", params=form)
            document[sql] = watch.report(f"{people:,} people")
        if shutil.which("chromium") is None or find_spec("playwright") is None:
            print("\nNo Chromium with Playwright: how long a step takes until it is painted is left out.")
            return document
        for query, figures in step_in_chromium(address, list(asked), people).items():
            document[asked[query]] |= figures
    return document


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the web application.")
    parser.add_argument("--analysts", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--people", type=int, default=1_000_000, help="0 leaves the slider out")
    parser.add_argument("--postgres", metavar="URL", help="an empty database, instead of SQLite")
    parser.add_argument("-o", "--output", type=Path, help="write the numbers as JSON")
    chosen = parser.parse_args()
    document: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="dosimeter-bench-") as place:
        folder = Path(place)
        where = chosen.postgres or str(folder / "load.db")
        kind = "PostgreSQL" if chosen.postgres else "SQLite"
        title = f"{chosen.analysts} analysts, one controller, {chosen.seconds:g} s, {kind}"
        if chosen.seconds:
            document["load"] = bench_load(where, folder, chosen.analysts, chosen.seconds, title)
        if chosen.people:
            document["slider"] = bench_slider(folder, chosen.people)
    if chosen.output is not None:
        chosen.output.write_text(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
