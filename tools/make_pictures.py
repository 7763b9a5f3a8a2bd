"""Draw the pictures of the documentation from the bundled clinic. Takes nothing; gives the files in docs/images.

The same question and preference as in the README. Drawn again, the pictures are the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dosimeter import Dataset
from dosimeter.show.charts import draw_altair, histogram_chart, range_chart, save_chart

REPOSITORY = Path(__file__).parents[1]
CLINIC = REPOSITORY / "src" / "dosimeter" / "data" / "clinic.csv"
TARGET = REPOSITORY / "docs" / "images"
QUESTION = "SELECT diagnosis, COUNT(*) FROM clinic WHERE district = 'Seal Island' GROUP BY diagnosis"
PREFERENCE = "ratio:0.95"
SHOWN = (10, 5, 2, 1, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
COSTS = "SELECT SUM(cost_eur) FROM clinic"


def draw_pictures(folder: Path) -> None:
    """Draw range.svg (least and most exposed at each ε) and histogram.svg (everybody at one ε, where costs differ)."""
    folder.mkdir(parents=True, exist_ok=True)
    with Dataset.open(CLINIC, schema=CLINIC.with_suffix(".toml")) as clinic:
        choice = clinic.risk(QUESTION, candidates=SHOWN).find(PREFERENCE)
        save_chart(draw_altair(range_chart(choice.candidates)), folder / "range.svg")
        save_chart(draw_altair(histogram_chart(clinic.risk(COSTS).rdr(1.0))), folder / "histogram.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the pictures of the documentation from the bundled clinic.")
    parser.add_argument("--output", type=Path, default=TARGET, metavar="DIR", help="where they go; default docs/images")
    draw_pictures(parser.parse_args().output)


if __name__ == "__main__":
    main()
