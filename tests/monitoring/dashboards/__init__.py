"""The Grafana dashboards of the chart, written here and rendered to JSON by ``make dashboards``."""
