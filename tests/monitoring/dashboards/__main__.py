"""Write the dashboards into the chart."""

from __future__ import annotations

import json
from pathlib import Path

from monitoring.dashboards.deployment import DEPLOYMENT
from monitoring.dashboards.fleet import FLEET
from monitoring.dashboards.grafana import Dashboard

FOLDER = Path(__file__).parents[3] / "charts" / "epd-operator" / "dashboards"
DASHBOARDS = {"fleet.json": FLEET, "deployment.json": DEPLOYMENT}


def text(dashboard: Dashboard) -> str:
    """The content of a dashboard's file."""
    return json.dumps(dashboard.render(), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all of them."""
    for name, dashboard in DASHBOARDS.items():
        (FOLDER / name).write_text(text(dashboard))


if __name__ == "__main__":
    main()
