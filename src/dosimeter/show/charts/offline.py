"""A chart that shows itself in a notebook as a finished picture: it loads nothing, and nothing offers to send it.

This module imports Altair, so it is itself imported only when a chart is drawn.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from dosimeter.show.charts.pages import draw_svg


class OfflineChart(alt.LayerChart):
    """An Altair chart that a notebook shows as a finished picture. Combining it with others gives an ordinary chart."""

    def _repr_mimebundle_(self, *given: Any, **options: Any) -> Any:
        """Return the chart as an SVG picture, by MIME type.

        If somebody chose a renderer of Altair's, return what that gives. Altair's default renderer is not used: it
        loads its scripts from the internet, into a page with private risks.
        """
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(*given, **options)
        picture = draw_svg(self)
        return {"text/html": picture, "image/svg+xml": picture, "text/plain": self.to_dict().get("description", "")}
