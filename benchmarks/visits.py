"""The table that speed is measured on: visits of sites, very unevenly spread over owners and sites.

    rows               10,000,000, or as many as asked
    owners             a tenth of the rows, Zipf exponent 0.7: the heaviest of a million has about 50,000 rows
    sites              20,000, Zipf exponent 1.05
    days               30, uniform
    spend              lognormal(2, 1)

Names of owners and sites are shuffled, so that no order of ids tells who is heavy. Made once, then kept on disk.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

DATA = Path(__file__).parent / "data"
SITES, DAYS, FIRST_DAY = 20_000, 30, np.datetime64("2026-09-01")
CHUNK = 2_000_000
SEED = 20_261_115
VERSION = 1


def database(rows: int, folder: Path = DATA) -> Path:
    """The path of a DuckDB file with the table `visits`, made if it is not there."""
    path = folder / f"visits-{rows}-v{VERSION}.duckdb"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        write(unfinished, rows)
        unfinished.rename(path)
    return path


def write(path: Path, rows: int) -> None:
    """Fills a new DuckDB file, a chunk at a time."""
    rng = np.random.default_rng(SEED)
    owners = Zipf(max(rows // 10, 1), 0.7, rng)
    sites = Zipf(SITES, 1.05, rng)
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE visits (uid BIGINT, site INTEGER, day DATE, spend DOUBLE)")
        for start in range(0, rows, CHUNK):
            count = min(CHUNK, rows - start)
            columns = {
                "uid": owners.draw(count),
                "site": sites.draw(count),
                "day": FIRST_DAY + rng.integers(0, DAYS, count),
                "spend": rng.lognormal(2, 1, count),
            }
            connection.register("chunk", pa.table(columns))
            connection.execute("INSERT INTO visits SELECT uid, site, day, spend FROM chunk")


class Zipf:
    """Ids 1 … size, shuffled; the r-th most frequent has a chance proportional to r^−exponent."""

    def __init__(self, size: int, exponent: float, rng: np.random.Generator) -> None:
        heights = np.cumsum(np.arange(1, size + 1, dtype=np.float64) ** -exponent)
        self._heights = heights / heights[-1]
        self._ids = rng.permutation(size) + 1
        self._rng = rng

    def draw(self, count: int) -> np.ndarray:
        """Independent draws."""
        return self._ids[np.searchsorted(self._heights, self._rng.random(count), side="right")]
