"""Compare schema and data, for the controller: draft a schema, check one, find the column that says whose a row is,
digest whose the rows are.

Takes an engine, and a Schema to compare; gives a draft or findings. What it finds is private.
"""

from typing import TYPE_CHECKING

from dosimeter.inspection.individuals import digest_individuals
from dosimeter.inspection.row_owners import (
    UNIT_TYPES,
    RepeatedOwner,
    count_values,
    find_overlooked_owner,
    find_repeated_owner,
    warn_of_owner,
    warn_of_people,
    weigh_name,
)
from dosimeter.late_names import load_late

if TYPE_CHECKING:
    from dosimeter.inspection.compare import SchemaCheck, check_schema
    from dosimeter.inspection.draft import (
        TableFacts,
        bare_schema,
        draft_decimal,
        draft_schema,
        draft_with_facts,
        impose_draft,
        tells_apart,
    )
    from dosimeter.inspection.remarks import header_remarks
    from dosimeter.inspection.usual_types import propose_usual_types
    from dosimeter.inspection.written_draft import write_draft

__getattr__ = load_late(
    __name__,
    {
        "compare": ("SchemaCheck", "check_schema"),
        "draft": (
            "TableFacts",
            "bare_schema",
            "draft_decimal",
            "draft_schema",
            "draft_with_facts",
            "impose_draft",
            "tells_apart",
        ),
        "remarks": ("header_remarks",),
        "usual_types": ("propose_usual_types",),
        "written_draft": ("write_draft",),
    },
)
