"""Facts about Dynamo and the inference engines below it, each in one place and used by all rooms above.

A backend is one engine: its command, environment, owned flags and variables, and the names of its metrics. Nothing here
imports another room, so that API rules, the pod builder and the readers of metrics share one description.
"""
