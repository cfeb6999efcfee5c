# SPDX-License-Identifier: Apache-2.0
"""Records between operators as JSON: what a stream writes, the stream below reads back, or it fails and says why.

A record fits a schema if it is one JSON object that has every column, null or not, each of its column's type; a
column that may not be null is not. Spark's own reader would make null of what is missing or of another type, and go
on. Fields that the schema does not have are left out. In a column of strings any JSON value is taken as its text, in
one of timestamps a number as seconds since the epoch, and a decimal is rounded to its column's scale: so Spark reads
JSON. What stands behind the first object of a record is not looked at, nor whether a value inside a struct, an array or
a map may be null.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

# All six digits of a second's fraction, and UTC: what Spark writes if not told has three, in the session's time zone.
_WRITE = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_READ = {
    "mode": "PERMISSIVE",  # what does not fit goes to a column of its own, so that we can name the topic and offset
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
_SHOWN_CHARACTERS = 200


def to_json_value(frame: DataFrame, *more: Column) -> DataFrame:
    """Give the frame as one column `value`: each row as a JSON object, its nulls written out; and `more` beside it.

    Raises
    ------
    ConfigurationError
        A column has a type that JSON does not bring back as it was, or two have the same name.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    check_columns(frame.schema)
    return frame.select(F.to_json(F.struct("*"), _WRITE).alias("value"), *more)


def from_json_value(raw: DataFrame, topic: str, schema: StructType) -> DataFrame:
    """Read back what `to_json_value` wrote.

    Parameters
    ----------
    raw
        Kafka's columns: `value`, `partition` and `offset` at least.
    topic
        Is named where a record does not fit; the query fails then.
    schema
        The columns wanted.

    Raises
    ------
    ConfigurationError
        The schema has a type that JSON does not bring back, no column, or one name twice.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    check_columns(schema)
    plain = _without_metadata(schema)
    assert isinstance(plain, StructType)
    unfit = "_unfit"
    while unfit in plain.names:
        unfit = "_" + unfit
    shape = StructType([*plain.fields, StructField(unfit, StringType())])
    text = F.col("value").cast("string")
    parsed = raw.select(
        text.alias("text"),
        F.json_object_keys(text).alias("keys"),
        F.from_json(text, shape, {**_READ, "columnNameOfCorruptRecord": unfit}).alias("record"),
        F.col("partition").alias("in_partition"),
        F.col("offset").alias("at_offset"),
    )
    fault = _fault(plain, unfit)
    place = F.concat(
        F.lit(f"topic '{topic}', partition "), F.col("in_partition"), F.lit(", offset "), F.col("at_offset")
    )
    shown = F.coalesce(
        F.regexp_replace(F.substring("text", 1, _SHOWN_CHARACTERS), r"\p{Cntrl}+", " "), F.lit("nothing")
    )
    told = F.raise_error(F.concat(place, F.lit(": the record "), fault, F.lit("; it begins: "), shown))
    checked = parsed.select(F.when(fault.isNotNull(), told).otherwise(F.col("record")).alias("record"))
    return checked.select(*(F.col("record").getField(name).alias(name) for name in plain.names))


def check_columns(schema: StructType) -> None:
    """Raise ConfigurationError with every column that JSON would not bring back as it was."""
    faults = [
        f"column {name!r} is there {count} times; give each a name of its own"
        for name, count in Counter(schema.names).items()
        if count > 1
    ]
    for field in schema.fields:
        odd = _odd_type(field.dataType)
        if odd is not None:
            faults.append(f"column {field.name!r} has {odd}; cast it, or leave it out")
    if not schema.fields:
        faults.append("there is no column; a stream needs at least one")
    if faults:
        raise ConfigurationError.of_all("stream", faults)


def _fault(schema: StructType, unfit: str) -> Column:
    """What is wrong with the record in `text`, `keys` and `record`; null: nothing."""
    from pyspark.sql import functions as F  # noqa: N812

    record, keys = F.col("record"), F.col("keys")
    missing = F.array_except(F.array(*(F.lit(name) for name in schema.names)), keys)
    reasons = [
        F.when(F.col("text").isNull(), F.lit("has no value")),
        F.when(keys.isNull(), F.lit("is not a JSON object")),
        F.when(F.size(missing) > 0, F.concat(F.lit("lacks the field(s) "), F.array_join(missing, ", "))),
        F.when(record.getField(unfit).isNotNull(), _mismatch(schema)),
    ]
    reasons += [
        F.when(record.getField(field.name).isNull(), F.lit(f"has null in {field.name}, which may not be null"))
        for field in schema.fields
        if not field.nullable
    ]
    return F.coalesce(*reasons)


def _mismatch(schema: StructType) -> Column:
    """Which fields are of another type: there in the text, and null in the record."""
    from pyspark.sql import functions as F  # noqa: N812

    # By maps of texts, not column by column: the expression stays small however many columns there are.
    types = F.create_map(*(F.lit(part) for f in schema.fields for part in (f.name, f.dataType.simpleString())))
    given = F.from_json(F.col("text"), "map<string,string>")
    read = F.from_json(F.to_json(F.col("record"), _WRITE), "map<string,string>")
    lost = F.map_filter(
        types, lambda name, _: F.element_at(given, name).isNotNull() & F.element_at(read, name).isNull()
    )
    listed = F.array_join(
        F.transform(
            F.map_entries(lost),
            lambda one: F.concat(
                one["key"],
                F.lit(" ("),
                one["value"],
                F.lit("): "),
                F.substring(F.element_at(given, one["key"]), 1, _SHOWN_CHARACTERS // 4),
            ),
        ),
        ", ",
    )
    inside = F.lit("has a value inside a column that is not of its type")
    return F.when(F.size(lost) == 0, inside).otherwise(F.concat(F.lit("has another type in "), listed))


def _odd_type(kind: DataType) -> str | None:
    from pyspark.sql import types as t

    plain = (
        t.StringType, t.BinaryType, t.BooleanType, t.NumericType, t.DateType, t.TimestampType, t.TimestampNTZType,
    )  # fmt: skip
    if isinstance(kind, t.ArrayType):
        return _odd_type(kind.elementType)
    if isinstance(kind, t.StructType):
        doubled = [name for name, count in Counter(kind.names).items() if count > 1]
        odd = next((odd for field in kind.fields if (odd := _odd_type(field.dataType)) is not None), None)
        return f"the field {doubled[0]!r} more than once" if doubled else odd
    if isinstance(kind, t.MapType):
        if not isinstance(kind.keyType, t.StringType):
            return f"a map with keys of type {kind.keyType.simpleString()}, and JSON's are strings"
        return _odd_type(kind.valueType)
    return None if isinstance(kind, plain) else f"type {kind.simpleString()}, which JSON does not bring back as it was"


def _without_metadata(kind: DataType) -> DataType:
    """The type, its fields' notes left out: Spark would take a watermark's from the stream above for one of this."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _without_metadata(f.dataType), f.nullable) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_without_metadata(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _without_metadata(kind.valueType), kind.valueContainsNull)
    return kind
