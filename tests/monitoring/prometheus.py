"""A real Prometheus server on loopback, and its answers."""

from __future__ import annotations

import json
import math
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from monitoring.programs import program
from support import waiting
from support.processes import Processes, free_ports


@dataclass
class Prometheus:
    """A server with this configuration; a context manager."""

    folder: Path
    config: Mapping[str, Any]
    url: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._processes = Processes(self.folder)

    def __enter__(self) -> Self:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(dict(self.config)))
        self._processes.start(
            "prometheus",
            [
                *(str(program("prometheus")), "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"),
                f"--web.listen-address=127.0.0.1:{port}",
            ],
        )
        try:
            self.wait_for("ready", self._ready)
        except BaseException:
            self._processes.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.stop()

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until something holds; raise when it takes too long or the server has ended."""
        waiting.wait_for(what, holds, check=self._processes.require_alive)

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The instant vector that an expression gives now."""
        data = self.api("query", query=expr)
        if data["resultType"] == "scalar":
            return [{"metric": {}, "value": data["result"]}]
        return list(data["result"])

    def values(self, expr: str) -> list[float]:
        """The numbers in that vector, without NaN."""
        numbers = (float(series["value"][1]) for series in self.query(expr))
        return [number for number in numbers if not math.isnan(number)]

    def value(self, expr: str) -> float | None:
        """The one number, if there is one."""
        values = self.values(expr)
        return values[0] if len(values) == 1 else None

    def api(self, path: str, **parameters: str) -> Any:
        """The data of an answer.

        Raises:
            urllib.error.HTTPError: the server refused.
        """
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as response:
            return json.load(response)["data"]

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False
