"""A chart that shows itself in a notebook as a finished picture: it loads nothing, and nothing offers to send it.

Imports Altair, so it is imported when a chart is drawn.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from dosimeter.show.charts.pages import draw_svg


class OfflineChart(alt.LayerChart):
    """An Altair chart like any other, but for how a notebook shows it. What is made of several is Altair's own."""

    def _repr_mimebundle_(self, *given: Any, **options: Any) -> Any:
        """Return an SVG picture; where somebody chose one of Altair's renderers, what that one gives.

        Altair's default renderer loads its scripts from the internet, into a page with private risks.
        """
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(*given, **options)
        picture = draw_svg(self)
        return {"text/html": picture, "image/svg+xml": picture, "text/plain": self.to_dict().get("description", "")}
