"""``dosimeter record``: one printable page about one answer."""

from __future__ import annotations

from pathlib import Path

import click

from dosimeter.cli import options as o
from dosimeter.cli.writing import Inputs, check_writable, confirm_written, write_whole
from dosimeter.errors import OptionError


@click.command("record")
@click.argument("entry", metavar="ENTRY", help="The entry's id, or its beginning; dosimeter ledger L lists them.")
@o.NEEDED_LEDGER
@click.option("-o", "--output", required=True, metavar="FILE", type=o.PATH, help="The page: .html.")
@click.option("--controller", is_flag=True, help="Add what only the controller may see: charge, reading, a hidden ε.")
def record(entry: str, ledger: str, output: Path, controller: bool) -> int:
    """Write one printable page about one answer, for an ethics board. Without --controller it holds nothing private."""
    from dosimeter.ledger import Ledger
    from dosimeter.release import write_record

    check_writable(output, (".html",), "a record is written", inputs=Inputs(ledger=ledger))
    with Ledger.open(ledger, create=False) as open_ledger:
        found = open_ledger.entry(open_ledger.complete_entry(entry))
        assert found is not None, "its record was just found"
        if found.status == "denied" and not controller:
            raise OptionError("A denial is not explained to anybody but the controller. Add --controller.")
        page = write_record(found, open_ledger.account(found.dataset), open_ledger.verify(), controller=controller)
    write_whole(output, page)
    confirm_written(output)
    return 0
