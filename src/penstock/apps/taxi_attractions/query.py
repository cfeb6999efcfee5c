# SPDX-License-Identifier: Apache-2.0
"""The query: read the pickup of each ride, add the nearest attraction and the distance to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.application_options import ApplicationOptions, Options
from penstock.apps.taxi_attractions.attractions import ATTRACTIONS, DEGREES, FIELDS, LATITUDE_AT, LONGITUDE_AT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OPTIONS = ApplicationOptions("taxi_attractions")
check_options = _OPTIONS.check


def taxi_attractions(stream: DataFrame, options: Options) -> DataFrame:
    """Return (index, arrival, value, attraction, distance) of the rides whose pickup is known.

    `value` is the ride as it came. `distance` is the Euclidean distance of longitude and latitude, in degrees, as in
    the paper. Other lines, and pickups at 0, 0 (where the taxi had no position), are dropped.

    Parameters
    ----------
    stream
        Rows with at least `index`, `arrival` and `value`.
    options
        There are none.
    """
    from pyspark.sql import functions as sf

    _OPTIONS.read(options)
    fields = sf.split("value", ",")
    rides = stream.select("index", "arrival", "value", fields.alias("fields")).where(sf.size("fields") == FIELDS)
    rides = rides.select(
        "index",
        "arrival",
        "value",
        _degrees(sf.col("fields")[LONGITUDE_AT]).alias("longitude"),
        _degrees(sf.col("fields")[LATITUDE_AT]).alias("latitude"),
    ).where("longitude IS NOT NULL AND latitude IS NOT NULL AND NOT (longitude = 0 AND latitude = 0)")
    # The least of structs is that of the least first field; the second settles ties, as in `check`.
    places = [
        sf.struct(
            _distance(longitude, latitude).alias("distance"), sf.lit(number).alias("number"), sf.lit(name).alias("name")
        )
        for number, (name, longitude, latitude) in enumerate(ATTRACTIONS)
    ]
    nearest = rides.withColumn("nearest", sf.least(*places))
    return nearest.select("index", "arrival", "value", sf.col("nearest.name").alias("attraction"), "nearest.distance")


def _degrees(text: Column) -> Column:
    from pyspark.sql import functions as sf

    return sf.when(text.rlike(DEGREES), text.try_cast("double"))


def _distance(longitude: float, latitude: float) -> Column:
    from pyspark.sql import functions as sf

    east, north = sf.col("longitude") - sf.lit(longitude), sf.col("latitude") - sf.lit(latitude)
    return sf.sqrt(east * east + north * north)
