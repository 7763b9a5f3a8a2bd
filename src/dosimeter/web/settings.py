"""What an operator configures: dosimeter.toml → Settings, checked once. Takes a file; gives frozen values."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from dosimeter.errors import OptionError
from dosimeter.ledger import Algorithm, Policy
from dosimeter.options import OPTIONS, MechanismName, check_option
from dosimeter.problems import Surface

EXAMPLE = "See docs/guide/operator.md for an example."


@dataclass(frozen=True, slots=True)
class DatasetSettings:
    """One dataset: where its data and public facts are, and on which terms its account is opened.

    ``allow_identifying``: analysts may ask about single persons, by columns that identify people.
    """

    data: str
    schema: Path
    policy: str
    algorithm: Algorithm
    delta_total: float | None = None
    max_epsilon: float | None = None
    mechanism: MechanismName = "laplace"
    candidates: str | None = None
    min_rows: int | None = None
    svt: float = 1.0
    variance: float = 1e-5
    table: str | None = None
    engine: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    null: str | None = None
    allow_identifying: bool = False

    def __post_init__(self) -> None:
        if self.algorithm not in get_args(Algorithm):
            raise OptionError(f"algorithm must be one of {', '.join(get_args(Algorithm))}.")
        for each in fields(self):
            if each.name in OPTIONS:
                check_option(each.name, getattr(self, each.name))
        Policy.parse(self.policy)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything `dosimeter serve` needs. A ``public_url`` with https makes cookies Secure and adds HSTS.

    ``trusted_proxies``: proxies whose X-Forwarded-For is trusted; by default none.
    ``open_queries``: how many queries an analyst may have waiting at a time.
    """

    database: str
    datasets: Mapping[str, DatasetSettings]
    secret: bytes = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 8765
    public_url: str | None = None
    trusted_proxies: str = ""
    session_hours: int = 12
    largest_body: int = 65_536
    open_queries: int = 50
    failures_allowed: int = 5
    blocked_minutes: int = 15
    demo: bool = False

    def __post_init__(self) -> None:
        if len(self.secret) < 32:
            raise OptionError("The secret file must hold at least 32 bytes. Make one with: dosimeter user secret FILE")
        if not 0 <= self.port <= 65_535:
            raise OptionError("port must lie between 0 and 65535.")
        for name in ("session_hours", "largest_body", "open_queries"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1.")
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
    """Read dosimeter.toml. Relative paths in it are relative to the file."""
    file = Path(path)
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise OptionError(f"There is no configuration file {file}. {EXAMPLE}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OptionError(f"{file} cannot be read as TOML: {error}.") from None
    return read_settings(document, file.absolute().parent)


_TOP = {
    "database": str, "host": str, "port": int, "public_url": str, "trusted_proxies": str, "session_hours": int,
    "largest_body": int, "open_queries": int, "secret_file": str, "datasets": dict,
}  # fmt: skip
_OWN = {"data": str, "schema": str, "algorithm": str, "allow_identifying": bool}
_DATASET = {each.name: _OWN.get(each.name) or OPTIONS[each.name].kind for each in fields(DatasetSettings)}


def read_settings(document: Mapping[str, Any], folder: Path) -> Settings:
    values = _check_table(document, _TOP, "the configuration")
    for name in ("database", "secret_file", "datasets"):
        if name not in values:
            raise OptionError(f"The configuration lacks {name}. {EXAMPLE}")
    datasets = {name: _read_dataset(name, table, folder) for name, table in values.pop("datasets").items()}
    database = values.pop("database")
    if "://" not in database:
        database = str(folder / database)
    secret = _read_secret(folder / values.pop("secret_file"))
    return Settings(database=database, datasets=datasets, secret=secret, **values)


def read_database(path: str | Path) -> str:
    """Return the database's address, which `dosimeter user` needs, after checking the whole configuration."""
    return load_settings(path).database


def _read_dataset(name: str, table: object, folder: Path) -> DatasetSettings:
    if not isinstance(table, Mapping):
        raise OptionError(f"datasets.{name} must be a table: [datasets.{name}].")
    values = _check_table(table, _DATASET, f"[datasets.{name}]")
    for key in ("data", "schema", "policy", "algorithm"):
        if key not in values:
            raise OptionError(f"[datasets.{name}] lacks {key}. {EXAMPLE}")
    data = values.pop("data")
    if "://" not in data and not data.startswith("duckdb:"):
        data = str(folder / data)
    elif data.startswith("duckdb:"):
        data = f"duckdb:{folder / data.removeprefix('duckdb:')}"
    try:
        return DatasetSettings(data=data, schema=folder / values.pop("schema"), **values)
    except OptionError as error:
        raise OptionError(f"[datasets.{name}]: {error.word(Surface.SETTINGS)}") from None


def _check_table(table: Mapping[str, Any], known: Mapping[str, type], where: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise OptionError(f"{where} has an unknown key {key!r}. Known: {', '.join(known)}.")
        wanted = known[key]
        fits = isinstance(value, (int, float)) if wanted is float else isinstance(value, wanted)
        if not fits or (isinstance(value, bool) and wanted is not bool):
            raise OptionError(f"{where}: {key} must be of the kind {wanted.__name__}.")
        values[key] = float(value) if wanted is float else value
    return values


def _read_secret(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError:
        raise OptionError(
            f"The secret file {path} cannot be read. Make one with: dosimeter user secret {path}"
        ) from None
