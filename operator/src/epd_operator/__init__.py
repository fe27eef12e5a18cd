"""A Kubernetes operator for Encode-Prefill-Decode serving of multimodal models on NVIDIA Dynamo."""

__version__ = "0.2.0"
