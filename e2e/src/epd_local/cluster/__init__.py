"""The running cluster: address plan, certificates, control plane, nodes, and their life cycle."""
