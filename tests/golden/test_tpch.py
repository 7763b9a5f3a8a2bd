"""TPC-H's queries 1, 6, 12 and 14 are planned as they are written there, but for their joins being written as JOIN."""

from __future__ import annotations

import pytest

from dosimeter.planning.planner import plan_query
from dosimeter.schema.toml import parse_schema

SCHEMA = parse_schema("""
table = "lineitem"
individuals = 1000
reviewed = true
[columns]
l_quantity = { type = "decimal", bounds = [0, 50], resolution = 1 }
l_extendedprice = { type = "decimal", bounds = [0, 110000], resolution = 0.01 }
l_discount = { type = "decimal", bounds = [0, 0.1], resolution = 0.01 }
l_tax = { type = "decimal", bounds = [0, 0.08], resolution = 0.01 }
l_returnflag = { type = "category", values = ["A", "N", "R"] }
l_linestatus = { type = "category", values = ["O", "F"] }
l_shipmode = { type = "category", values = ["MAIL", "SHIP", "AIR", "RAIL"] }
l_shipdate = { type = "date", bounds = [1992-01-01, 1998-12-31] }
l_commitdate = { type = "date", bounds = [1992-01-01, 1998-12-31] }
l_receiptdate = { type = "date", bounds = [1992-01-01, 1998-12-31] }
l_orderkey = { type = "integer" }
l_partkey = { type = "integer" }
[tables.part]
source = "part.csv"
public = true
key = "p_partkey"
columns.p_partkey = { type = "integer" }
columns.p_type = { type = "text" }
[tables.orders]
source = "orders.csv"
public = true
key = "o_orderkey"
columns.o_orderkey = { type = "integer" }
columns.o_orderpriority = { type = "category", values = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"] }
""")
QUERIES = {
    "q1": """
        select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price,
            sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
            sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,
            avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc,
            count(*) as count_order
        from lineitem where l_shipdate <= date '1998-12-01' - interval '90' day
        group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
    "q6": """
        select sum(l_extendedprice * l_discount) as revenue from lineitem
        where l_shipdate >= date '1994-01-01' and l_shipdate < date '1994-01-01' + interval '1' year
            and l_discount between 0.06 - 0.01 and 0.06 + 0.01 and l_quantity < 24""",
    "q12": """
        select l_shipmode,
            sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 end) as high,
            sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end) as low
        from lineitem join orders on o_orderkey = l_orderkey
        where l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
            and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1994-01-01' + interval '1' year
        group by l_shipmode order by l_shipmode""",
    "q14": """
        select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
            / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
        from lineitem join part on l_partkey = p_partkey
        where l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-09-01' + interval '1' month""",
}
CONDITIONS = {
    "q1": ["CAST('1998-09-02' AS DATE)"],
    "q6": ["CAST('1995-01-01' AS DATE)", "BETWEEN CAST(0.05 AS DOUBLE) AND CAST(0.07 AS DOUBLE)"],
    "q12": ["CAST('1995-01-01' AS DATE)"],
    "q14": ["CAST('1995-10-01' AS DATE)"],
}
# Of SUM(l_extendedprice * l_discount): the largest price times the largest discount. Of several measures: their number.
SENSITIVITY = {"q1": 11, "q6": 11_000, "q12": 2, "q14": 2}


@pytest.mark.parametrize("name", QUERIES)
def test_tpch(name: str) -> None:
    plan = plan_query(QUERIES[name], SCHEMA)
    assert plan.where is not None
    written = plan.where.sql(dialect="duckdb")
    assert all(condition in written for condition in CONDITIONS[name])
    assert plan.sensitivity(1) == pytest.approx(SENSITIVITY[name])
