"""A discrete-event model of the three topologies: latencies, goodput, utilisation and cost of given traffic.

It has no I/O and no clock, and draws random numbers only from a source that the caller passes in. All times are in
seconds. docs/simulate.md describes the model, docs/simulator-calibration.md how its constants were found.
"""
