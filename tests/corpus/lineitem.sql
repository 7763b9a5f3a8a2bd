-- TPC-H Q1
SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
       SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc,
       COUNT(*) AS count_order
FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus;

-- TPC-H Q6
SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
  AND l_discount BETWEEN 0.06 - 0.011 AND 0.06 + 0.011 AND l_quantity < 24;

-- TPC-H Q12
SELECT l_shipmode,
       SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
       SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
FROM lineitem WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
  AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY l_shipmode HAVING l_shipmode IN ('MAIL', 'SHIP') ORDER BY l_shipmode;

-- TPC-H Q14
SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
       / SUM(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part WHERE lineitem.l_partkey = part.p_partkey
  AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH;

SELECT YEAR(l_shipdate) AS year, SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charge FROM lineitem GROUP BY year ORDER BY year;

SELECT l_shipmode, AVG(DATE_DIFF('day', l_commitdate, l_receiptdate)) AS late FROM lineitem GROUP BY l_shipmode ORDER BY l_shipmode;

SELECT p_type, SUM(l_quantity) AS sold FROM lineitem JOIN part ON lineitem.l_partkey = part.p_partkey GROUP BY p_type ORDER BY sold DESC, p_type;

SELECT COUNT(DISTINCT l_custkey) AS customers FROM lineitem WHERE l_returnflag = 'R';

SELECT AVG(total) AS per_customer FROM (SELECT l_custkey, SUM(l_quantity) AS total FROM lineitem GROUP BY l_custkey) t;

SELECT COUNT(*) AS big FROM (SELECT l_custkey FROM lineitem GROUP BY l_custkey HAVING SUM(l_quantity) > 100) t;

SELECT l_returnflag, COUNT(*) AS n FROM lineitem WHERE l_receiptdate > l_commitdate GROUP BY l_returnflag ORDER BY 1;

SELECT SUBSTR(o_orderpriority, 1, 1) AS priority, COUNT(*) AS n FROM lineitem GROUP BY priority ORDER BY priority;

SELECT l_linestatus, l_returnflag, SUM(l_quantity) AS q FROM lineitem GROUP BY GROUPING SETS ((l_linestatus), (l_returnflag), ()) ORDER BY ALL;

SELECT LAST_DAY(l_shipdate) AS month_end, COUNT(*) AS n FROM lineitem WHERE YEAR(l_shipdate) = 1996 GROUP BY month_end HAVING COUNT(*) > 0 ORDER BY month_end;

-- Shares of the promoted parts, each beside the whole.
SELECT p_type, SUM(l_extendedprice) / (SELECT SUM(l_extendedprice) FROM lineitem JOIN part ON l_partkey = p_partkey) AS share FROM lineitem JOIN part ON l_partkey = p_partkey WHERE p_type LIKE 'PROMO%' GROUP BY p_type ORDER BY p_type;

SELECT l_returnflag AS flag, SUM(l_quantity) AS quantity FROM lineitem WHERE l_shipdate < DATE '1996-01-01' GROUP BY l_returnflag UNION ALL SELECT 'late', SUM(l_quantity) FROM lineitem WHERE l_receiptdate > l_commitdate ORDER BY flag;

-- refused: identifies people
SELECT l_custkey, SUM(l_quantity) FROM lineitem GROUP BY l_custkey ORDER BY 2 DESC LIMIT 10;
