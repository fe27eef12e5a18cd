"""Devices of pods: GPUs, shared memory, RDMA."""
