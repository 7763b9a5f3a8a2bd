"""A small client for analysts' programs: submit a query to a Dosimeter server, wait, read the answer.

client = Client("https://dosimeter.example.org", token)
answer = client.submit("SELECT COUNT(*) FROM clinic WHERE smoker", purpose="prevalence").wait()
answer.status, answer.rows
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

from dosimeter.errors import OptionError, QueryError, ServerError
from dosimeter.json_values import (
    JsonObject,
    JsonRow,
    JsonValue,
    read_list,
    read_number,
    read_object,
    read_optional_text,
    read_scalar,
    read_text,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["Client", "ServerError", "Submitted"]

_NO_ANSWER: JsonObject = dict.fromkeys(("rows", "epsilon", "epsilon_svt", "error_95", "guarantee"))
MOST_LISTED = 100  # queries that the server lists at a time
Found = TypeVar("Found")
Status = Literal["waiting", "released", "denied", "changes", "withdrawn"]


@dataclass(frozen=True, slots=True, repr=False)
class Submitted:
    """A query of yours as the server described it when the client last asked.

    ``message``: what the server says about the status. ``rows``: the released answer. Until there is one, ``rows`` and
    the fields that describe it are None or empty: ``epsilon``, None also if ε stays hidden; ``epsilon_svt``, the ε that
    finding ε cost; ``error_95``, the 95 % error of each aggregate column; ``errors``, the 95 % errors of each row, by
    column; ``guarantee``, what is promised of the answer; ``about``, facts that a reader of the rows needs.
    """

    id: str
    dataset: str
    sql: str
    status: Status
    message: str | None
    rows: list[JsonRow] | None
    epsilon: float | None
    epsilon_svt: float | None
    error_95: list[float | None] | None
    guarantee: str | None
    errors: list[dict[str, float | None]] | None
    about: list[str]
    purpose: str
    created_at: str
    client: Client

    def withdraw(self) -> Submitted:
        """Withdraw the query, and return it as it is afterwards.

        Raises:
            ServerError: it is decided, or was withdrawn before.
        """
        return self.client.withdraw(self.id)

    def __repr__(self) -> str:
        """Show the query on one short line."""
        rows = "" if self.rows is None else f", {len(self.rows)} rows"
        return f"Submitted({self.id!r}, {self.status}{rows}, {self.purpose!r})"

    def refresh(self) -> Submitted:
        """Return the query as the server knows it now."""
        return self.client.query(self.id)

    def wait(self, timeout: float | None = None, *, every: float = 2.0) -> Submitted:
        """Ask again and again until the query is no longer waiting, and return it as it is then.

        Args:
            timeout: how many seconds to wait at most; the server is asked once more when they are over. None: for ever.
            every: how many seconds to wait before the server is asked again.

        Raises:
            TimeoutError: it is still waiting when ``timeout`` is over.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        current = self.refresh()
        while current.status == "waiting":
            left = every if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"Query {self.id} is still waiting. Call wait() again, or look with refresh().")
            time.sleep(min(every, left))
            current = current.refresh()
        return current


class Client:
    """A connection to one server with one analyst's token, and a context manager that closes it.

    Args:
        url: the server's address.
        token: a token from the page “You”.
        timeout: how many seconds a request may take.
        insecure: send the token over http:// to another machine, where everybody on the way can read it.
        transport: how requests are sent; for tests.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30.0,
        insecure: bool = False,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise OptionError("The client needs httpx: pip install 'dosimeter[web]'.") from None
        self.url = _check_address(url, insecure=insecure)
        if not re.fullmatch(r"[!-~]+", token):
            raise OptionError("The token holds characters that no token has. Copy it again from the page “You”.")
        self._http = httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout,
            transport=transport,
        )

    def close(self) -> None:
        """Close the connection. A ``with`` block does it at its end."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def datasets(self) -> list[JsonObject]:
        """Return the datasets and what is publicly known of them."""
        return self._call("GET", "/datasets", lambda found: [dict(read_object(each)) for each in read_list(found)])

    def check(self, sql: str, *, dataset: str | None = None) -> JsonObject:
        """Return the server's description of whether a query can be answered (``answerable``). Nothing is submitted.

        Args:
            sql: the query.
            dataset: its dataset; may be left out where there is only one.
        """
        document: JsonObject = {"dataset": self._dataset(dataset), "sql": sql}
        return self._call("POST", "/check", lambda found: dict(read_object(found)), document)

    def submit(
        self,
        sql: str,
        *,
        purpose: str,
        dataset: str | None = None,
        priority: Literal["low", "normal", "high"] = "normal",
        wanted_error: float | None = None,
    ) -> Submitted:
        """Put a query into the controller's queue, and return it as the server knows it.

        Args:
            sql: the query.
            purpose: what it is for.
            dataset: its dataset; may be left out where there is only one.
            priority: how urgent it is.
            wanted_error: the 95 % error that would be good enough.

        Raises:
            QueryError: the query cannot be answered.
        """
        document: JsonObject = {
            "dataset": self._dataset(dataset),
            "sql": sql,
            "purpose": purpose,
            "priority": priority,
            "wanted_error": wanted_error,
        }
        return self._call("POST", "/queries", self._read, document)

    def query(self, query_id: str) -> Submitted:
        """Return one of your queries.

        Args:
            query_id: its id.
        """
        return self._call("GET", _write_path(query_id), self._read)

    def queries(self, *, limit: int = 50) -> list[Submitted]:
        """Return your queries, newest first.

        Args:
            limit: how many at most. The server is asked for a hundred at a time.
        """
        found: list[Submitted] = []
        place = ""
        while len(found) < limit:
            part = min(limit - len(found), MOST_LISTED)
            listed, place = self._call("GET", f"/queries?{urlencode({'limit': part, 'place': place})}", self._read_page)
            found += listed
            if not place:
                break
        return found

    def withdraw(self, query_id: str) -> Submitted:
        """Withdraw one of your queries, and return it as it is afterwards.

        Args:
            query_id: its id.

        Raises:
            ServerError: it is decided, or was withdrawn before.
        """
        return self._call("POST", f"{_write_path(query_id)}/withdraw", self._read)

    def _dataset(self, name: str | None) -> str:
        if name is not None:
            return name
        names = self._call(
            "GET", "/datasets", lambda found: [str(read_object(each)["name"]) for each in read_list(found)]
        )
        if len(names) != 1:
            raise OptionError(f"Say which dataset: {', '.join(names)}.")
        return names[0]

    def _read(self, found: JsonValue) -> Submitted:
        document = read_object(found)
        given = document["answer"]
        answer = _NO_ANSWER if given is None else read_object(given)
        errors, by_row = answer["error_95"], answer.get("errors")
        return Submitted(
            id=read_text(document["id"]),
            dataset=read_text(document["dataset"]),
            sql=read_text(document["sql"]),
            status=cast(Status, read_text(document["status"])),
            message=read_optional_text(document["message"]),
            rows=None if given is None else [_read_row(row) for row in read_list(answer["rows"])],
            epsilon=read_number(answer["epsilon"]),
            epsilon_svt=read_number(answer["epsilon_svt"]),
            error_95=None if errors is None else [read_number(error) for error in read_list(errors)],
            guarantee=read_optional_text(answer["guarantee"]),
            errors=None if by_row is None else [_read_errors(row) for row in read_list(by_row)],
            about=[read_text(fact) for fact in read_list(answer.get("about") or [])],
            purpose=read_text(document["purpose"]),
            created_at=read_text(document["created_at"]),
            client=self,
        )

    def _read_page(self, found: JsonValue) -> tuple[list[Submitted], str]:
        page = read_object(found)
        queries, following = read_list(page["queries"]), read_optional_text(page.get("following"))
        return [self._read(query) for query in queries], following or ""

    def _call(
        self, method: str, path: str, read: Callable[[JsonValue], Found], document: JsonObject | None = None
    ) -> Found:
        """Send a request and return what is read from its answer.

        A Dosimeter server sends no malformed fields, so that an address which does is probably that of another server.
        """
        import httpx

        try:
            response = self._http.request(method, path, json=document)
        except httpx.HTTPError as error:
            raise ServerError(f"The server does not answer ({type(error).__name__}).", code="unreachable") from None
        try:
            found: JsonValue = response.json()
        except ValueError:
            found = None
        if response.is_success:
            try:
                return read(found)
            except (KeyError, TypeError, AttributeError):
                raise ServerError(
                    "The server does not answer as a Dosimeter server does. Is the address right?", code="unknown"
                ) from None
        problem = found.get("error") if isinstance(found, Mapping) else None
        message = problem.get("message") if isinstance(problem, Mapping) else None
        if not isinstance(problem, Mapping) or not isinstance(message, str):
            raise ServerError(
                f"The server answers with status {response.status_code}, and not as a Dosimeter server does.",
                code="unknown",
            )
        if problem.get("code") == "not_answerable":
            clause = problem.get("clause")
            raise QueryError(message, clause=clause if isinstance(clause, str) else None)
        raise ServerError(message, code=str(problem.get("code", "unknown")))


def _write_path(query_id: str) -> str:
    if query_id in ("", ".", ".."):
        raise OptionError("This is no query's id.")
    return f"/queries/{quote(query_id, safe='')}"


def _read_errors(row: JsonValue) -> dict[str, float | None]:
    return {name: read_number(error) for name, error in read_object(row).items()}


def _read_row(row: JsonValue) -> JsonRow:
    return {name: read_scalar(value) for name, value in read_object(row).items()}


def _check_address(url: str, *, insecure: bool) -> str:
    """Return the address without a slash at its end. Refuse one that the token cannot or must not be sent to.

    Refused are an address that cannot be read, one with more than scheme, host, port and path, and http:// to another
    machine unless ``insecure``.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.port != 0 else None
    except ValueError:  # a port that is no number, or half an IPv6 address
        raise OptionError("The server's address cannot be read. It looks like https://host:port.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise OptionError("The server's address begins with https:// (or http:// on your own machine).")
    if parts.username is not None or parts.password is not None:
        raise OptionError("Leave name and password out of the server's address: the token says who you are.")
    if parts.query or parts.fragment:
        raise OptionError("The server's address ends before any ? or #.")
    if parts.scheme == "http" and not insecure and not _is_this_machine(host):
        raise OptionError(
            "Over http:// everybody on the way can read the token. Use https://, or say insecure=True if that is meant."
        )
    return url.rstrip("/")


def _is_this_machine(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
