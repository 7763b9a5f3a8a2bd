"""The application as it starts: the configuration, the tables, its health, and errors that give nothing away."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from dosimeter.errors import LedgerError, OptionError
from dosimeter.web.settings import load_settings
from dosimeter.web.store.database import Database
from dosimeter.web.store.tables import METADATA, VERSION_TABLE
from tests.web.web_site import Guest, Site, clinic_settings, make_settings, write_configuration


def test_configuration_is_read(tmp_path: Path) -> None:
    text = 'port = 9000\npublic_url = "https://d.example.org"'
    settings = load_settings(write_configuration(tmp_path, text, "max_epsilon = 1\nallow_identifying = true"))
    assert (settings.port, settings.secure, settings.database) == (9000, True, str(tmp_path / "site.db"))
    assert (settings.datasets["clinic"].max_epsilon, settings.datasets["clinic"].allow_identifying) == (1.0, True)
    assert "xxxx" not in repr(settings)
    plain = load_settings(write_configuration(tmp_path)).datasets["clinic"]
    assert (plain.max_epsilon, plain.allow_identifying) == (None, False)


@pytest.mark.parametrize("source", ["spark:visits", "postgresql://host/base", "duckdb:{}x.duckdb", "{}visits.csv"])
def test_only_files_are_looked_for_beside_the_configuration(tmp_path: Path, source: str) -> None:
    file = write_configuration(tmp_path)
    file.write_text(file.read_text().replace("clinic.csv", source.format("")))
    assert load_settings(file).datasets["clinic"].data == source.format(f"{tmp_path}/")


@pytest.mark.parametrize(
    ("text", "dataset", "words"),
    [
        ("prot = 1", "", "unknown key 'prot'"),
        ('port = "1"', "", "port must be of the kind int"),
        ("port = true", "", "port must be of the kind int"),
        ("port = 99999", "", "between 0 and 65535"),
        ('public_url = "d.example.org"', "", "https://"),
        ("demo = true", "", "unknown key 'demo'"),  # a field of Settings, but no key of the file
        ("port = 8765.0", "", "port must be of the kind int"),
        ("", 'colour = "red"', "unknown key 'colour'"),
        ("", "min_rows = true", "[datasets.clinic]: min_rows must be of the kind int"),
        ("", 'max_epsilon = "1"', "max_epsilon must be of the kind float"),
        ("", "allow_identifying = 1", "allow_identifying must be of the kind bool"),
        ("", 'mechanism = "none"', "laplace or gaussian"),
        ("[[", "", "cannot be read as TOML"),
        *((f"{limit} = 0", "", "at least 1") for limit in ("session_hours", "largest_body", "open_queries")),
    ],
)
def test_configuration_is_checked(tmp_path: Path, text: str, dataset: str, words: str) -> None:
    with pytest.raises(OptionError, match=words.replace("[", r"\[")):
        load_settings(write_configuration(tmp_path, text, dataset))


def test_configuration_says_what_it_lacks(tmp_path: Path) -> None:
    file, begun = tmp_path / "dosimeter.toml", 'database = "a"\nsecret_file = "b"\n'
    for text, words in (
        ("", "lacks database"),
        (begun, "lacks datasets"),
        (f"{begun}[datasets]\nclinic = 1", "clinic must be a table"),
        (f'{begun}[datasets.clinic]\ndata = "c"', r"\[datasets.clinic\] lacks schema"),
    ):
        file.write_text(text)
        with pytest.raises(OptionError, match=words):
            load_settings(file)


def test_configuration_needs_its_secret(tmp_path: Path) -> None:
    file = write_configuration(tmp_path)
    (tmp_path / "secret").write_text("short")
    with pytest.raises(OptionError, match="at least 32 bytes"):
        load_settings(file)
    (tmp_path / "secret").unlink()
    with pytest.raises(OptionError, match="dosimeter user secret"):
        load_settings(file)
    with pytest.raises(OptionError, match="no configuration file"):
        load_settings(tmp_path / "nothing.toml")


def test_terms_of_an_account_cannot_be_changed_by_the_configuration(site: Site, anna: Guest, carol: Guest) -> None:
    carol.approve(anna.ask())
    site.stop()
    for changes in ({"policy": "budget:5"}, {"algorithm": "fixed"}, {"max_epsilon": 3.0}):
        with pytest.raises(LedgerError, match="was opened") as refused:
            Site.start(make_settings(site.settings.database, {"clinic": clinic_settings(**changes)}), {})
        assert "--policy" not in str(refused.value)
        assert "configuration" in str(refused.value)


def test_migrations_make_the_tables_the_code_uses(database: str) -> None:
    with closing(Database(database)) as opened:
        opened.migrate()
        opened.migrate()  # nothing to do
        inspector = sa.inspect(opened.engine)
        for table in METADATA.tables.values():
            made = {column["name"]: column for column in inspector.get_columns(table.name)}
            assert set(made) == set(table.columns.keys())
            assert {n for n, c in made.items() if not c["nullable"]} == {
                c.name for c in table.columns if not c.nullable
            }
        names = set(inspector.get_table_names())
        assert VERSION_TABLE in names
        assert "alembic_version" not in names
        assert opened.ledger.verify().intact
