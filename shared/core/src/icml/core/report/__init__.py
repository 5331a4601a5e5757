"""A finished run as one self-contained HTML page, and an index page of many runs."""

from icml.core.report.page import write_index, write_report

__all__ = ["write_index", "write_report"]
