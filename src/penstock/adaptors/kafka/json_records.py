# SPDX-License-Identifier: Apache-2.0
"""Records between operators as JSON. A stream reads back what the upstream one writes, or fails and says why.

A record fits a schema if it is one JSON object with every column, null or not, each of its column's type, and no null
in a column that may not be null. (Spark's own reader would turn missing values and values of another type into null,
and go on.) Fields outside the schema are dropped. Type conversion is that of Spark's JSON reader: a column of strings
takes any JSON value as its text, a column of timestamps takes a number as seconds since the epoch, and a decimal is
rounded to its column's scale. Two things are not checked: text after the first object of a record, and nulls inside a
struct, an array or a map.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

# All six digits of a second's fraction, and UTC: by default Spark writes three, in the session's time zone.
_WRITE_OPTIONS = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_READ_OPTIONS = {
    "mode": "PERMISSIVE",  # keeps what does not fit in a column, so that the error can name the offset
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
_SHOWN_CHARACTERS = 200


def to_json_value(frame: DataFrame, *more: Column) -> DataFrame:
    """Return the frame as one column `value`, each row a JSON object with its nulls, and the columns of `more`.

    Raises
    ------
    ConfigurationError
        A column has a type that JSON cannot restore, or two columns have the same name.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    check_columns(frame.schema)
    return frame.select(F.to_json(F.struct("*"), _WRITE_OPTIONS).alias("value"), *more)


def from_json_value(raw: DataFrame, topic: str, schema: StructType) -> DataFrame:
    """Read back what `to_json_value` wrote.

    Parameters
    ----------
    raw
        Kafka's columns: `value`, `partition` and `offset` at least.
    topic
        Named in the error if a record does not fit. The query fails then.
    schema
        The columns wanted.

    Raises
    ------
    ConfigurationError
        The schema has a type that JSON cannot restore, no column, or one name twice.
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
        F.from_json(text, shape, {**_READ_OPTIONS, "columnNameOfCorruptRecord": unfit}).alias("record"),
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
    failure = F.raise_error(F.concat(place, F.lit(": the record "), fault, F.lit("; it begins: "), shown))
    checked = parsed.select(F.when(fault.isNotNull(), failure).otherwise(F.col("record")).alias("record"))
    return checked.select(*(F.col("record").getField(name).alias(name) for name in plain.names))


def check_columns(schema: StructType) -> None:
    """Raise ConfigurationError that lists every column JSON cannot restore."""
    faults = [
        f"column {name!r} occurs {count} times; give each column a name of its own"
        for name, count in Counter(schema.names).items()
        if count > 1
    ]
    for field in schema.fields:
        odd = _odd_type(field.dataType)
        if odd is not None:
            faults.append(f"column {field.name!r} has {odd}; cast it, or leave it out")
    if not schema.fields:
        faults.append("there are no columns; a stream needs at least one")
    if faults:
        raise ConfigurationError.of_all("stream", faults)


def _fault(schema: StructType, unfit: str) -> Column:
    """Say what is wrong with the record in `text`, `keys` and `record`; null if nothing is."""
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
    """Name the fields of another type: present in the text, but null in the record."""
    from pyspark.sql import functions as F  # noqa: N812

    # Compare maps of texts, not column by column: the expression stays small however many columns there are.
    types = F.create_map(*(F.lit(part) for f in schema.fields for part in (f.name, f.dataType.simpleString())))
    given = F.from_json(F.col("text"), "map<string,string>")
    read = F.from_json(F.to_json(F.col("record"), _WRITE_OPTIONS), "map<string,string>")
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
            return f"a map with keys of type {kind.keyType.simpleString()}, but JSON's keys are strings"
        return _odd_type(kind.valueType)
    return None if isinstance(kind, plain) else f"type {kind.simpleString()}, which JSON cannot restore"


def _without_metadata(kind: DataType) -> DataType:
    """The type without its fields' metadata: Spark would take an upstream watermark for one of this stream."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _without_metadata(f.dataType), f.nullable) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_without_metadata(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _without_metadata(kind.valueType), kind.valueContainsNull)
    return kind
