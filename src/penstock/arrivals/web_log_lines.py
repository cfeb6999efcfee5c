# SPDX-License-Identifier: Apache-2.0
"""Generates web access logs of 100 made-up sites: ``2026-01-31T12:34:56.789 v0001234 saned.example /pou/theas 200``.

The fields are the time of the record's arrival (UTC), the visitor, the site, the path and the status of the answer. A
few sites, pages and visitors occur often and most seldom.
"""

from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.arrivals.generated_lines import (
    ZERO_STAMP,
    bits_of_records,
    decode_lines,
    join_pool,
    write_digits,
    write_stamps,
)
from penstock.arrivals.text_lines import made_up_words

SITES = 100
VISITORS = 1_000
"""So few that a count of each site's visitors has seen most of them within a minute, and its state stops growing."""
STATUS_WEIGHTS = {200: 80, 301: 4, 304: 6, 404: 8, 500: 2}
"""Statuses, and how many in a hundred lines have each."""
_POOL_SIZE = 8192
_PAGES_PER_SITE = 40
_VISITOR_DIGITS = 7
_VISITOR_AT = len(ZERO_STAMP) + len(" v")


class WebLogLines:
    """Lines of a web access log by record number.

    Parameters
    ----------
    seed
        Another seed, other sites and visits.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._pool = _pool(seed)
        self._lengths = np.array([len(line) for line in self._pool], dtype=np.int64)

    def encode(self, start: int, arrival_us: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return the lines of the records from `start` on, as `GeneratedLines` says."""
        bits = bits_of_records(start, len(arrival_us), self.seed)
        offsets, text = join_pool(self._pool, self._lengths, (bits & np.uint64(_POOL_SIZE - 1)).astype(np.int64))
        at_random = (bits >> np.uint64(32)).astype(np.float64) / 2.0**32
        write_stamps(text, offsets[:-1], arrival_us)
        # The square of a uniform number: the first hundredth of the visitors makes a tenth of the visits.
        visitors = (VISITORS * at_random**2).astype(np.int64)
        write_digits(text, offsets[:-1] + _VISITOR_AT, visitors, _VISITOR_DIGITS)
        return offsets, text

    def lines(self, start: int, arrival_us: NDArray[np.int64]) -> list[str]:
        """Return the same lines as strings."""
        return decode_lines(*self.encode(start, arrival_us))


@lru_cache(maxsize=4)
def _pool(seed: int) -> tuple[bytes, ...]:
    """Return lines whose stamps and visitors are still zero."""
    rng = random.Random(f"web logs {seed}")
    sites = [f"{name}.example" for name in made_up_words(rng, SITES)]
    pages = [f"/{rng.choice(names)}/{rng.choice(names)}" for names in [made_up_words(rng, 200)] for _ in range(200)]
    site_weights = [1 / (5 + rank) for rank in range(SITES)]
    page_weights = [1 / rank for rank in range(1, _PAGES_PER_SITE + 1)]
    page_sets = {site: rng.sample(pages, _PAGES_PER_SITE) for site in sites}
    lines = []
    for site in rng.choices(sites, site_weights, k=_POOL_SIZE):
        (page,) = rng.choices(page_sets[site], page_weights)
        (status,) = rng.choices(list(STATUS_WEIGHTS), list(STATUS_WEIGHTS.values()))
        lines.append(ZERO_STAMP + f" v{0:0{_VISITOR_DIGITS}} {site} {page} {status}".encode())
    return tuple(lines)
