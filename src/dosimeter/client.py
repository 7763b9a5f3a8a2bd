"""A small client for analysts' programs: submit a query to a Dosimeter server, wait, read the answer.

client = Client("https://dosimeter.example.org", token)
answer = client.submit("SELECT COUNT(*) FROM clinic WHERE smoker", purpose="prevalence").wait()
answer.status, answer.rows
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from dosimeter.errors import DosimeterError, OptionError, QueryError

if TYPE_CHECKING:
    import httpx

Status = Literal["waiting", "released", "denied", "changes", "withdrawn"]


class ServerError(DosimeterError):
    """The server refused, or does not answer. ``code`` is the server's word for it."""

    exit_code = 2

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Submitted:
    """A query as the server knows it. ``rows``, ``epsilon`` and ``error_95`` are there once it is released."""

    id: str
    dataset: str
    sql: str
    status: Status
    message: str | None
    rows: list[dict[str, Any]] | None
    epsilon: float | None
    epsilon_svt: float | None
    error_95: list[float | None] | None
    guarantee: str | None
    client: Client

    def refresh(self) -> Submitted:
        return self.client.query(self.id)

    def wait(self, timeout: float | None = None, *, every: float = 2.0) -> Submitted:
        """Ask again and again until it is decided. With a timeout in seconds, TimeoutError once it has passed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        current = self.refresh()
        while current.status == "waiting":
            if deadline is not None and time.monotonic() + every > deadline:
                raise TimeoutError(f"Query {self.id} is still waiting. Call wait() again, or look with refresh().")
            time.sleep(every)
            current = current.refresh()
        return current


class Client:
    """One server, one analyst's token. A context manager."""

    def __init__(
        self, url: str, token: str, *, timeout: float = 30.0, transport: httpx.BaseTransport | None = None
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise OptionError("The client needs httpx: pip install 'dosimeter[web]'.") from None
        if not url.startswith(("http://", "https://")):
            raise OptionError("The server's address begins with https:// (or http:// on your own machine).")
        self._http = httpx.Client(
            base_url=url.rstrip("/") + "/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout,
            transport=transport,
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({str(self._http.base_url)!r})"

    def datasets(self) -> list[dict[str, Any]]:
        """The datasets and what is publicly known of them."""
        found: list[dict[str, Any]] = self._call("GET", "/datasets")
        return found

    def check(self, sql: str, *, dataset: str | None = None) -> dict[str, Any]:
        """Whether this could be answered; asks nothing."""
        checked: dict[str, Any] = self._call("POST", "/check", {"dataset": self._dataset(dataset), "sql": sql})
        return checked

    def submit(
        self,
        sql: str,
        *,
        purpose: str,
        dataset: str | None = None,
        priority: Literal["low", "normal", "high"] = "normal",
        wanted_error: float | None = None,
    ) -> Submitted:
        """Put a query into the controller's queue. The dataset may be left out where there is only one."""
        document = {
            "dataset": self._dataset(dataset),
            "sql": sql,
            "purpose": purpose,
            "priority": priority,
            "wanted_error": wanted_error,
        }
        return self._read(self._call("POST", "/queries", document))

    def query(self, query_id: str) -> Submitted:
        return self._read(self._call("GET", f"/queries/{query_id}"))

    def queries(self, *, limit: int = 50) -> list[Submitted]:
        """Your queries, newest first."""
        return [self._read(document) for document in self._call("GET", f"/queries?limit={limit}")["queries"]]

    def _dataset(self, name: str | None) -> str:
        if name is not None:
            return name
        names = [str(dataset["name"]) for dataset in self.datasets()]
        if len(names) != 1:
            raise OptionError(f"Say which dataset: {', '.join(names)}.")
        return names[0]

    def _read(self, document: Mapping[str, Any]) -> Submitted:
        query = Submitted(
            id=document["id"],
            dataset=document["dataset"],
            sql=document["sql"],
            status=document["status"],
            message=document["message"],
            rows=None,
            epsilon=None,
            epsilon_svt=None,
            error_95=None,
            guarantee=None,
            client=self,
        )
        answer = document["answer"]
        return query if answer is None else replace(query, **answer)

    def _call(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Any:
        import httpx

        try:
            response = self._http.request(method, path, json=document)
        except httpx.HTTPError as error:
            raise ServerError(f"The server does not answer ({type(error).__name__}).", code="unreachable") from None
        if response.is_success:
            return response.json()
        try:
            problem = response.json()["error"]
        except (ValueError, KeyError, TypeError):
            raise ServerError(f"The server answers with status {response.status_code}.", code="unknown") from None
        if problem["code"] == "not_answerable":
            raise QueryError(problem["message"], clause=problem["clause"])
        raise ServerError(problem["message"], code=problem["code"])
