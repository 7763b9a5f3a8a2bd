"""Charts: a bar of RDRs per candidate, a histogram of everybody at one ε, two worlds, an account's reading.

Each is made once, as a Chart (``charts/chart.py``), and drawn from it: as Altair charts, files and pages that need no
network, as SVG for the web, and by the terminal. Altair is used only here and by the package in ``paper/``.
"""

from dosimeter.show.charts.chart import Bar, Chart, Line, Look, Mark, Point, Rule
from dosimeter.show.charts.histogram import Bin, bin_people, bins_chart, histogram_chart
from dosimeter.show.charts.pages import draw_svg, risk_page, save_chart, write_page
from dosimeter.show.charts.ranges import range_chart
from dosimeter.show.charts.staircase import MOST_STEPS, Step, staircase_chart
from dosimeter.show.charts.svg import turn_inwards, write_axis, write_rows, write_svg
from dosimeter.show.charts.vega import FAINT, INK, NEUTRAL, draw_altair, write_spec
from dosimeter.show.charts.worlds import worlds_chart
