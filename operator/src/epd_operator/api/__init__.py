"""The Kubernetes API of the operator: the models of its kinds. operator/tools/crdgen compiles them to CRDs."""
