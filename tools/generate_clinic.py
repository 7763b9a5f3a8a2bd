"""Write the bundled clinic table. Takes nothing; gives src/dosimeter/data/clinic.csv, the same bytes every time.

Nobody in it exists. Three people share a rare diagnosis and eleven live on an island, so that somebody stands out.
Draws are made with ``Random.random()`` alone, whose sequence Python keeps from version to version.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random

SEED = 20230101
PEOPLE = 4000
ISLANDERS = 11
RARE_CASES = 3
TARGET = Path(__file__).parents[1] / "src" / "dosimeter" / "data" / "clinic.csv"
HEADER = (
    "patient_id", "name", "age", "sex", "district", "diagnosis", "smoker", "visits", "cost_eur", "admitted",
)  # fmt: skip

FEMALE_NAMES = (
    "Ada Agnes Alma Amina Anouk Beatriz Bruna Carla Chiara Dagny Dora Edda Elif Elin Emine Esther Fatma Frida Greta "
    "Hanna Helga Ida Ilse Ines Irma Jana Jasmin Johanna Karin Kira Lea Lene Lidia Lotte Magda Maja Marta Mila Mina "
    "Nadia Nora Olga Paula Petra Rosa Ruth Sanna Selma Signe Sofia Tilda Ulla Vera Wanda Yara Zoe"
).split()
MALE_NAMES = (
    "Adem Alvar Anton Arne Aron Bela Bruno Carlo Casper Dario David Edgar Emil Enzo Erik Felix Finn Georg Gustav "
    "Hamid Hans Hugo Ivan Jakob Jens Jonas Josef Karl Kasimir Kemal Lars Leon Levin Luca Magnus Malik Marek Matteo "
    "Milan Moritz Nils Noah Olav Omar Oskar Paul Pavel Rafael Rene Samir Silas Stefan Tariq Theo Tomas Viktor "
    "Walter Yusuf"
).split()
FAMILY_NAMES = (
    "Abendroth Ahlgren Aksoy Almeida Amsel Bakker Barth Bellini Berger Birk Bjerke Brandt Bruun Castell Cerny Conti "
    "Dahl Demir Dorn Duval Eder Eklund Engel Falk Ferrari Fink Fischer Fonseca Frost Gallo Gerber Graf Grimm Haas "
    "Hartmann Hedlund Heller Holm Horvat Iversen Jansen Jonsson Kaplan Kern Klein Kovacs Kranz Krug Lang Lehner "
    "Lind Lopes Lund Maier Marek Martins Meyer Moreau Nagy Neri Nilsen Novak Olsen Ortega Pavlik Petrov Pohl Popov "
    "Quast Rask Reuter Ricci Ritter Rossi Sand Santos Schenk Seidel Silva Sommer Stark Strand Sturm Tamm Thorne "
    "Toth Urban Varga Vogel Voss Wagner Weber Weiss Winter Wolff Yilmaz Zander Zeller Ziegler"
).split()

DISTRICTS = (("Old Town", 0.27), ("Harbour", 0.23), ("Northgate", 0.21), ("Riverside", 0.17), ("Hillcrest", 0.12))
ISLAND = "Seal Island"
RARE = "Wilson disease"


@dataclass(frozen=True, slots=True)
class Condition:
    """A diagnosis: how common among the young and the old, visits a year, cost of a visit and its spread."""

    name: str
    young: float
    old: float
    visits: float
    cost: float
    spread: float


CONDITIONS = (
    Condition("Asthma", 0.17, 0.06, 3.0, 70.0, 0.6),
    Condition("Back pain", 0.12, 0.18, 5.0, 85.0, 0.6),
    Condition("Coronary disease", 0.00, 0.16, 6.0, 210.0, 0.7),
    Condition("Depression", 0.12, 0.07, 8.0, 95.0, 0.5),
    Condition("Diabetes", 0.03, 0.15, 6.0, 120.0, 0.7),
    Condition("Fracture", 0.16, 0.09, 3.0, 290.0, 0.7),
    Condition("Hypertension", 0.02, 0.21, 4.0, 60.0, 0.5),
    Condition("Influenza", 0.27, 0.06, 1.0, 45.0, 0.5),
    Condition("Migraine", 0.11, 0.02, 2.0, 65.0, 0.6),
)
WILSON = Condition(RARE, 0.0, 0.0, 18.0, 800.0, 0.4)


def draw_option(random: Random, options: Sequence[tuple[str, float]]) -> str:
    """Draw one of the options, each with a probability in proportion to its weight."""
    left = random.random() * sum(weight for _, weight in options)
    for option, weight in options:
        left -= weight
        if left < 0:
            return option
    return options[-1][0]


def draw_normal(random: Random) -> float:
    """Draw a standard normal number, by Box and Muller."""
    return math.sqrt(-2.0 * math.log(1.0 - random.random())) * math.cos(2.0 * math.pi * random.random())


def draw_age(random: Random) -> int:
    """Draw an age from 0 to 98: children and young adults, and a broad peak of older people."""
    if random.random() < 0.3:
        return int(random.random() * 30)
    return min(98, max(18, round(55 + 18 * draw_normal(random))))


def draw_condition(random: Random, age: int) -> Condition:
    """Draw a common diagnosis that is likely at this age."""
    old = min(1.0, max(0.0, (age - 15) / 60))
    name = draw_option(random, [(c.name, c.young * (1 - old) + c.old * old) for c in CONDITIONS])
    return next(condition for condition in CONDITIONS if condition.name == name)


def draw_cost(random: Random, condition: Condition, visits: int) -> str:
    """Draw what the clinic billed, in euros and cents; empty for one in twenty-five, not billed yet."""
    if random.random() < 0.04:
        return ""
    stay = 9000.0 * math.exp(0.8 * draw_normal(random)) if random.random() < 0.004 else 0.0
    treatment = (85.0 + visits * condition.cost) * math.exp(condition.spread * draw_normal(random))
    cents = round(100 * min(49_000.0, treatment + stay))
    return f"{cents // 100}.{cents % 100:02d}"


def draw_person(random: Random, number: int, *, island: bool, rare: bool) -> list[str]:
    """Draw one row of the table."""
    age = 20 + int(random.random() * 25) if rare else draw_age(random)
    sex = draw_option(random, [("Female", 0.531), ("Male", 0.466), ("Other", 0.003)])
    given = {"Female": FEMALE_NAMES, "Male": MALE_NAMES, "Other": FEMALE_NAMES + MALE_NAMES}[sex]
    name = " ".join(names[int(random.random() * len(names))] for names in (given, FAMILY_NAMES))
    condition = WILSON if rare else draw_condition(random, age)
    smokes = age >= 16 and random.random() < (0.31 if sex == "Male" else 0.22) * (0.5 if age > 65 else 1.0)
    # Exponential with a mean that itself varies: most people come a few times, a few come every week.
    often = condition.visits * math.exp(0.6 * draw_normal(random))
    visits = min(60, int(-often * math.log(1.0 - random.random())))
    return [
        f"P{number:05d}",
        name,
        str(age),
        sex,
        ISLAND if island else draw_option(random, DISTRICTS),
        condition.name,
        "true" if smokes else "false",
        str(visits),
        draw_cost(random, condition, visits),
        (date(2023, 1, 1) + timedelta(days=int(random.random() * 1096))).isoformat(),
    ]


def generate_clinic() -> list[list[str]]:
    """Return everybody, in the order of their numbers. One of the rare cases lives on the island."""
    random = Random(SEED)
    order = sorted(range(PEOPLE), key=lambda _: random.random())
    rare = set(order[:RARE_CASES])
    island = set(order[RARE_CASES - 1 : RARE_CASES - 1 + ISLANDERS])
    numbers: set[int] = set()
    while len(numbers) < PEOPLE:
        numbers.add(10_000 + int(random.random() * 90_000))
    return [
        draw_person(random, number, island=place in island, rare=place in rare)
        for place, number in enumerate(sorted(numbers))
    ]


def main() -> None:
    """Write the table into the package, or to another file."""
    parser = argparse.ArgumentParser(description="Write the bundled clinic table.")
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    target = parser.parse_args().output
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(generate_clinic())
    print(f"{target.name}: {PEOPLE} people")


if __name__ == "__main__":
    main()
