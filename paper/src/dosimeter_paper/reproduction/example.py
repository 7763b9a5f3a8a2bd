"""The paper's first example (section 4.1): three patients, one of them ill. Gives everybody's RDR at each ε."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dosimeter.dataset import Dataset
from dosimeter.json_values import JsonObject
from dosimeter.show import TextTable, format_epsilon, format_number

SQL = "SELECT COUNT(*) FROM patients WHERE d = 1"
PATIENTS, DISEASE = ("A", "B", "C"), (0, 0, 1)
EPSILONS = (math.inf, 1.0, 0.1, 0.01)
PREFERENCE = "ratio:0.9"


@dataclass(frozen=True, slots=True)
class Line:
    """The risks at one ε. ``rdr``: of each patient, in order. ``ratio``: the smallest RDR divided by the largest."""

    epsilon: float
    rdr: tuple[float, ...]
    ratio: float


@dataclass(frozen=True, slots=True)
class PaperExample:
    lines: tuple[Line, ...]
    epsilon: float | None

    def document(self) -> JsonObject:
        """Return the example as a JSON object, in which ε = ∞ is null."""
        return {
            "query": SQL,
            "patients": [{"patient": p, "disease": d} for p, d in zip(PATIENTS, DISEASE, strict=True)],
            "lines": self.list_lines(),
            "preference": "MIN(rdr) / MAX(rdr) >= 0.9",
            "epsilon": self.epsilon,
        }

    def list_lines(self) -> list[JsonObject]:
        return [{"epsilon": _or_null(line.epsilon), "rdr": list(line.rdr), "ratio": line.ratio} for line in self.lines]

    def text_table(self) -> TextTable:
        """Return the paper's figure as a table, with a row per patient and a column per ε."""
        columns = ["P", "D", *(f"ε = {format_epsilon(line.epsilon)}" for line in self.lines)]
        rows = [
            [name, str(disease), *(format_number(line.rdr[place]) for line in self.lines)]
            for place, (name, disease) in enumerate(zip(PATIENTS, DISEASE, strict=True))
        ]
        rows.append(["least ÷ most", "", *(format_number(line.ratio, 4) for line in self.lines)])
        return {"columns": columns, "rows": rows}

    @property
    def words(self) -> str:
        found = "no candidate" if self.epsilon is None else f"ε = {format_epsilon(self.epsilon)}"
        return (
            "Smaller ε adds the same noise to everybody's RDR, so that the patients look more alike. If the least "
            f"exposed must carry at least 90 % of the risk of the most exposed, the largest candidate is {found}."
        )


def _or_null(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def compute_example() -> PaperExample:
    """Compute the example with the same code as any other query."""
    import pyarrow as pa

    with Dataset.open(pa.table({"p": PATIENTS, "d": DISEASE}), table="patients") as dataset:
        risk = dataset.risk(SQL, candidates=[epsilon for epsilon in EPSILONS if math.isfinite(epsilon)])
        lines = []
        for epsilon in EPSILONS:
            healthy, ill = risk.rdr(epsilon).values.tolist()  # ascending PIS: 0, then 1
            rdr = tuple(ill if disease else healthy for disease in DISEASE)
            lines.append(Line(epsilon, rdr, min(rdr) / max(rdr)))
        return PaperExample(tuple(lines), risk.find(PREFERENCE).epsilon)
