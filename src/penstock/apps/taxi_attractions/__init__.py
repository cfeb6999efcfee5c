# SPDX-License-Identifier: Apache-2.0
"""Taxi attractions: each taxi ride with the nearest of three attractions of New York. It is stateless.

It is the application of the Gesscale paper (Sec. V-A). `rides` prepares the public trace for it.
"""

from penstock.apps.taxi_attractions.query import check_options, taxi_attractions

__all__ = ["check_options", "taxi_attractions"]
