"""Which fields and values of a model are missing in a schema that the API server serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from epd_operator.api.untyped import mapping


def missing_fields(model: type[BaseModel], schema: object, *, path: str = "") -> Iterator[str]:
    """Paths of the fields of *model* that *schema* lacks, such as ``spec.pools[].gpu``.

    A missing value of an enumeration follows its field: ``spec.topology: CoLocated``. Fields below a missing field are
    left out. Parts of the schema that cannot be understood count as complete.
    """
    properties = mapping(schema).get("properties")
    if not isinstance(properties, Mapping):
        return
    for field in model.model_fields.values():
        place = f"{path}.{field.alias}" if path else str(field.alias)
        if field.alias not in properties:
            yield place
        else:
            yield from _missing_inside(field.annotation, properties[field.alias], path=place)


def _missing_inside(annotation: Any, schema: object, *, path: str) -> Iterator[str]:
    origin, known = get_origin(annotation), mapping(schema)
    if origin is Literal:
        return
    if origin is list:
        yield from _missing_inside(get_args(annotation)[0], known.get("items"), path=f"{path}[]")
    elif origin is dict:
        yield from _missing_inside(get_args(annotation)[1], known.get("additionalProperties"), path=f"{path}[]")
    elif origin is not None:
        for argument in get_args(annotation):
            yield from _missing_inside(argument, schema, path=path)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from missing_fields(annotation, schema, path=path)
    elif isinstance(annotation, type) and issubclass(annotation, StrEnum):
        values = known.get("enum")
        if isinstance(values, list):
            yield from (f"{path}: {value}" for value in annotation if value not in values)
