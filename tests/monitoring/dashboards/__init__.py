"""The Grafana dashboards of the chart. ``make dashboards`` renders them to JSON."""
