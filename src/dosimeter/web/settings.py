"""What an operator configures: dosimeter.toml → Settings, checked once. Takes a file; gives frozen values."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import field, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, Strict, ValidationError
from pydantic.dataclasses import dataclass

from dosimeter.errors import OptionError
from dosimeter.ledger import Algorithm, Policy
from dosimeter.options import OPTIONS, MechanismName, check_option
from dosimeter.problems import Option, Surface
from dosimeter.show import format_epsilon, format_small

EXAMPLE = "See docs/guide/operator.md for an example."
_CHECKED = ConfigDict(strict=True, extra="forbid")
_KINDS = {"string_type": "str", "path_type": "str", "int_type": "int", "float_type": "float", "bool_type": "bool"}
_ALGORITHMS = {
    "fixed": "ε set by a controller",
    "find": "ε found from a preference",
    "find-and-release": "ε found by a noisy test, and released",
}
Positive = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True, config=_CHECKED)
class DatasetSettings:
    """One dataset: where its data and public facts are, and on which terms its account is opened.

    Fields that are called like an option of ``dosimeter release`` mean the same. ``group_delta``: analysts may also
    group by columns whose values nobody declared, at this δ for each answer (H1). ``tell_cut``: of every query that it
    goes with, for this share of ε, answers also tell how many people were cut and clamped (E5). ``svt``: what the noisy
    test costs; by default a tenth of what is left in the account when an answer is approved. ``allow_identifying``:
    analysts may ask about single persons, by columns that identify people.
    """

    data: str
    schema: Annotated[Path, Strict(False)]
    policy: str
    algorithm: Algorithm
    delta_total: float | None = None
    max_epsilon: float | None = None
    mechanism: MechanismName = "laplace"
    candidates: str | None = None
    min_rows: int | None = None
    group_delta: float | None = None
    tell_cut: float | None = None
    svt: float | None = None
    variance: float = 1e-5
    violation: float | None = None
    table: str | None = None
    engine: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    null: str | None = None
    decimal: str | None = None
    date_format: str | None = None
    allow_identifying: bool = False

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name in OPTIONS:
                check_option(each.name, getattr(self, each.name), optional=True)
        if self.group_delta is not None and self.algorithm == "find-and-release":
            raise OptionError(
                Option("group_delta"),
                " does not go with find-and-release: its noisy test needs to know how many groups there are.",
            )
        Policy.parse(self.policy)

    @property
    def budget(self) -> Decimal | None:
        """Return the ε that may be spent in all; None without a budget."""
        return Policy.parse(self.policy).budget

    @property
    def policy_words(self) -> str:
        """Return the policy in words: "budget:2" becomes "a budget of ε = 2 in all"."""
        terms = Policy.parse(self.policy)
        if terms.budget is None:
            return "the paper's rule: each ε larger than what is spent"
        at = "" if terms.delta is None else f" at δ = {format_small(float(terms.delta))}"
        return f"a budget of ε = {format_epsilon(float(terms.budget))}{at} in all"

    @property
    def algorithm_words(self) -> str:
        """Return in words how ε is set."""
        return _ALGORITHMS[self.algorithm]


@dataclass(frozen=True, slots=True, kw_only=True, config=_CHECKED)
class ServerSettings:
    """The settings of the server itself, as the file has them.

    A ``public_url`` with https makes cookies Secure and adds HSTS. ``trusted_proxies``: proxies whose X-Forwarded-For
    is trusted; by default none. ``open_queries``: how many queries an analyst may have waiting at a time;
    ``queries_per_minute``: how many they may submit in a minute. ``largest_body``: of a request, in bytes. ``contact``:
    whom to ask for access, for the sign-in page: a name, a telephone number, an address.
    """

    database: str
    host: str = "127.0.0.1"
    port: int = 8765
    public_url: str | None = None
    trusted_proxies: str = ""
    session_hours: Positive = 12
    largest_body: Positive = 65_536
    open_queries: Positive = 50
    queries_per_minute: Positive = 30
    contact: Annotated[str, Field(max_length=200)] = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_CHECKED)
class Document(ServerSettings):
    """The whole configuration file as it is written, before the files that it names are read."""

    secret_file: str
    datasets: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, config=_CHECKED)
class Settings(ServerSettings):
    """Everything that ``dosimeter serve`` needs: the file's settings, with the secret and the datasets read.

    ``failures_allowed``: after how many wrong passwords for one user from one address further attempts are refused.
    ``blocked_minutes``: how many minutes after the latest of them they are forgotten. ``demo``: whether the server is a
    demonstration.
    """

    datasets: Mapping[str, DatasetSettings]
    secret: bytes = field(repr=False)
    failures_allowed: int = 5
    blocked_minutes: int = 15
    demo: bool = False

    def __post_init__(self) -> None:
        if len(self.secret) < 32:
            raise OptionError("The secret file must hold at least 32 bytes. Make one with: dosimeter user secret FILE")
        if not 0 <= self.port <= 65_535:
            raise OptionError("port must lie between 0 and 65535.")
        if self.public_url is not None and not self.public_url.startswith(("http://", "https://")):
            raise OptionError("public_url must begin with https:// (or http:// without TLS).")
        if not self.datasets:
            raise OptionError(f"The configuration names no dataset. Add a [datasets.NAME] table. {EXAMPLE}")
        seen: dict[tuple[str, str | None], str] = {}
        for name, dataset in self.datasets.items():
            twin = seen.setdefault((dataset.data, dataset.table), name)
            if twin != name:
                raise OptionError(
                    f"[datasets.{name}] and [datasets.{twin}] are the same data. The same people have one account: "
                    "keep one of the two."
                )

    @property
    def secure(self) -> bool:
        return self.public_url is not None and self.public_url.startswith("https://")


def load_settings(path: str | Path) -> Settings:
    """Read dosimeter.toml. Relative paths in it are relative to the file. Refuse a file that cannot be used."""
    file = Path(path)
    read, folder = _read_document(file), file.absolute().parent
    datasets = {name: _read_dataset(name, table, folder) for name, table in read.datasets.items()}
    given = {each.name: getattr(read, each.name) for each in fields(ServerSettings)}
    if "://" not in read.database:
        given["database"] = str(folder / read.database)
    return Settings(datasets=datasets, secret=_read_secret(folder / read.secret_file), **given)


def _read_document(file: Path) -> Document:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise OptionError(f"There is no configuration file {file}. {EXAMPLE}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OptionError(f"{file} cannot be read as TOML: {error}.") from None
    return _read_table(Document, document, "the configuration")


def read_database(path: str | Path) -> str:
    """Return the database's address, for ``dosimeter user`` and ``audit``, after checking the whole configuration."""
    return load_settings(path).database


def locate_secret(path: Path) -> Path:
    """Return where the secret is that a configuration names, without reading it."""
    return path.absolute().parent / _read_document(path).secret_file


def _read_dataset(name: str, table: object, folder: Path) -> DatasetSettings:
    if not isinstance(table, Mapping):
        raise OptionError(f"datasets.{name} must be a table: [datasets.{name}].")
    read = _read_table(DatasetSettings, table, f"[datasets.{name}]")
    data = read.data
    if data.startswith("duckdb:"):
        data = f"duckdb:{folder / data.removeprefix('duckdb:')}"
    elif "://" not in data and not data.startswith("spark:"):
        data = str(folder / data)
    return replace(read, data=data, schema=folder / read.schema)


Table = TypeVar("Table", Document, DatasetSettings)


def _read_table(kind: type[Table], table: Mapping[str, Any], where: str) -> Table:
    """Return a table of the file as a value of this class. Refuse the first missing, unknown or unusable key, by name.

    ``where``: the table's name in the file.
    """
    try:
        return kind(**table)
    except OptionError as error:
        raise OptionError(f"{where}: {error.word(Surface.SETTINGS)}") from None
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
    key, context = problem["loc"][0], problem.get("ctx", {})
    match problem["type"]:
        case "unexpected_keyword_argument":
            known = ", ".join(each.name for each in fields(kind))
            raise OptionError(f"{where} has an unknown key {key!r}. Known: {known}.")
        case "missing" | "missing_argument" | "missing_keyword_only_argument":
            raise OptionError(f"{where[0].upper()}{where[1:]} lacks {key}. {EXAMPLE}")
        case "literal_error":
            raise OptionError(f"{where}: {key} must be {context['expected'].replace(chr(39), '')}.")
        case "greater_than_equal":
            raise OptionError(f"{where}: {key} must be at least {context['ge']}.")
        case other:
            raise OptionError(f"{where}: {key} must be of the kind {_KINDS.get(other, 'table')}.")


def _read_secret(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError:
        raise OptionError(
            f"The secret file {path} cannot be read. Make one with: dosimeter user secret {path}"
        ) from None
