"""The shell of every report: risk, anonymity and whoever else writes a page."""

from shoal.pages.shell import embedded, heads, page, tile, top, write_page

__all__ = ["embedded", "heads", "page", "tile", "top", "write_page"]
