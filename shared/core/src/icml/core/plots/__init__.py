"""One look for all figures: the claim is the title, colours follow the role of an arm.

Each function takes plain numbers and returns a `Plot`; `Plot.save` writes the SVG in a wide
and a narrow drawing and the CSV they were drawn from. Same input, same bytes.

Example:
    >>> rows = [{"arm": "gdpo", "seed": 0, "step": 0, "format": 0.1},
    ...         {"arm": "gdpo", "seed": 0, "step": 1, "format": 0.4}]
    >>> plot = curves(rows, title="The format is learnt", arms=[Arm("gdpo", "ours", "GDPO")],
    ...               panels={"format": "right format (share)"}, x_label="step")
    >>> plot.rows[1]
    ('format', 'gdpo', 1.0, 0.4, 0.4, 0.4, 1)
"""

from icml.core.plots.lines import curves
from icml.core.plots.rows import Bar, Estimate, bars, intervals
from icml.core.plots.style import Arm, Plot

__all__ = ["Arm", "Bar", "Estimate", "Plot", "bars", "curves", "intervals"]
