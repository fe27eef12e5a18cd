"""The local cluster: a real Kubernetes cluster with GPU-like nodes on one Linux machine, and the builds for it.

``python -m epd_local --help`` lists the commands. Standard library only, so that it runs before anything is installed.
"""
