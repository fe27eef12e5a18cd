"""Descriptions of Dynamo and of the inference engines that it runs.

A backend describes one engine: its command, environment, owned flags and variables, and the names of its metrics. This
package imports no other package of the operator, so API rules, the pod builder and the readers of metrics can use it.
"""
