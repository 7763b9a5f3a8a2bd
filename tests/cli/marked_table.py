"""A table whose cells are easy to recognise where none may stand: in messages, logs and refusals."""

from __future__ import annotations

MARKER = "Xanthippe-77731"  # stands in the data, and nowhere else
TABLE = f"""name,age,ward,pay,ill,since,seen
{MARKER},30,east,1.5,true,2020-01-01,2020-01-01 10:00:00
Bob,40,west,2.25,false,2020-06-01,2020-01-02 11:30:00
Cleo,,west,,true,,
Dan,77731,east,-3,,2021-01-01,2021-02-03 00:00:01
"""
SCHEMA = """table = "t"
individuals = 10
reviewed = true
[columns]
name = { type = "text", identifying = true }
age = { type = "integer", bounds = [0, 100] }
ward = { type = "category", values = ["east", "west"] }
pay = { type = "decimal", bounds = [-5, 10], resolution = 0.25 }
ill = { type = "boolean" }
since = { type = "date", bounds = [2020-01-01, 2021-12-31] }
seen = { type = "timestamp", bounds = [2020-01-01T00:00:00, 2021-12-31T00:00:00] }
"""
