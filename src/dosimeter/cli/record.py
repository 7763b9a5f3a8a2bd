"""``dosimeter record``: one printable page about one answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli import options as o
from dosimeter.errors import OptionError


def record(
    entry: Annotated[
        str, typer.Argument(metavar="ENTRY", help="The entry's id, or its beginning; dosimeter ledger L lists them.")
    ],
    ledger: Annotated[str, typer.Option("--ledger", metavar="L", help="The ledger: a file, or a postgresql:// URL.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page: .html.")],
    controller: Annotated[
        bool, typer.Option("--controller", help="Add what only the controller may see: charge, reading, a hidden ε.")
    ] = False,
) -> int:
    """Write one printable page about one answer, for an ethics board. Without --controller it holds nothing private."""
    from dosimeter.ledger import Ledger
    from dosimeter.release import write_record

    o.check_writable(output, (".html",), "a record is written", inputs=o.Inputs(ledger=ledger))
    with Ledger.open(ledger, create=False) as open_ledger:
        found = open_ledger.entry(open_ledger.complete_entry(entry))
        assert found is not None, "its record was just found"
        if found.status == "denied" and not controller:
            raise OptionError("A denial is not explained to anybody but the controller. Add --controller.")
        page = write_record(found, open_ledger.account(found.dataset), open_ledger.verify(), controller=controller)
    o.write_whole(output, page)
    o.confirm_written(output)
    return 0
