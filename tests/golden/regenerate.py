"""Writes the expected outputs of all fixture files anew: `python tests/golden/regenerate.py`, then read the difference."""

from __future__ import annotations

from pathlib import Path

from golden_text import PASSES, outcome, read_cases


def main() -> None:
    for name_of_pass in PASSES:
        path = Path(__file__).with_name(f"{name_of_pass}.sql")
        cases = read_cases(path)
        path.write_text("\n\n".join(case.written(outcome(name_of_pass, case.sql)) for case in cases) + "\n")
        print(f"{path.name}: {len(cases)} cases")


if __name__ == "__main__":
    main()
