"""Writes docs/theory/planted-bugs.md from the catalogue."""

from test_planted_bugs import PAGE, page

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
