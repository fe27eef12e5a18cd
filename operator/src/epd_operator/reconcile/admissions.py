"""Remembers what admission has made of children, so that the operator does not write them again.

Kept in memory. After a restart each such child is applied once more, which changes nothing and gives the record again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from epd_operator.objects.identity import Key
from epd_operator.plan.observation import Admitted, ChildKey


class Admissions:
    """The records of all objects that the operator reconciles."""

    def __init__(self) -> None:
        self._records: dict[Key, dict[ChildKey, Admitted]] = {}

    def of(self, key: Key) -> Mapping[ChildKey, Admitted]:
        """The records of the children of one object."""
        return self._records.get(key, {})

    def learn(self, key: Key, found: Mapping[ChildKey, Admitted | None]) -> dict[ChildKey, Admitted]:
        """Keep the results of applies; returns what has not been reported yet.

        Args:
            key: the EPDDeployment.
            found: what admission has made of children; None if nothing.
        """
        known = self._records.get(key, {})
        kept = {child: record for child, record in known.items() if child not in found}
        news = {}
        for child, record in _counted(found, known=known):
            kept[child] = record
            before = known.get(child)
            if before is None or (before.fields, before.is_unstable) != (record.fields, record.is_unstable):
                news[child] = record
        self.forget(key)
        if kept:
            self._records[key] = kept
        return news

    def forget(self, key: Key) -> None:
        """Drop the records of a deleted object."""
        self._records.pop(key, None)


def _counted(
    found: Mapping[ChildKey, Admitted | None], *, known: Mapping[ChildKey, Admitted]
) -> Iterator[tuple[ChildKey, Admitted]]:
    """The records, with the number of times that the same plan has got other values in the same fields."""
    for child, record in found.items():
        if record is None:
            continue
        before = known.get(child)
        if before is None or (before.uid, before.plan, before.fields) != (record.uid, record.plan, record.fields):
            yield child, record
        else:
            yield child, replace(record, changes=before.changes + (before.values != record.values))
