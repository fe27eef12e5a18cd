"""Constants found by the fit, and the GPUs and models that are known by name."""

from __future__ import annotations

from collections.abc import Mapping

from epd_operator.advice.simulation.costs import Costs, Gpu, Llm

RTX_6000D_COMPUTE = 0.398

COSTS = Costs(
    request=0.0561,
    decode_megapixel=5.43e-4,
    prepare_megapixel=1.19e-3,
    engine_input_token=6.95e-5,
    encode_token=8.21e-6,
    prefill_token=2.21e-6,
    step=1.72e-3,
    step_request=3e-5,
    memory_gigabyte=1 / 8000 / 0.7,
    handover=0.003,
    pd_per_preparation=0.736,
    pd_per_encoder=0.426,
    pd_shared=0.0655,
    encoder_shared=0.164,
)
"""Fitted to published figures by tests/published/fit.py, but for three that are assumed: `step_request`, `handover` and
`memory_gigabyte` (70 % of 8 TB/s)."""

GPUS: Mapping[str, Gpu] = {
    "GB200": Gpu(compute=1.0, memory=1.0),
    "B200": Gpu(compute=2250 / 2500, memory=7.7 / 8),
    "H200": Gpu(compute=989 / 2500, memory=4.8 / 8),
    "H100": Gpu(compute=989 / 2500, memory=3.35 / 8),
    "A100": Gpu(compute=312 / 2500, memory=2.0 / 8),
    "L40S": Gpu(compute=362 / 2500, memory=0.864 / 8),
    "RTX-PRO-6000": Gpu(compute=RTX_6000D_COMPUTE * 188 / 156, memory=1.6 / 8),
    "RTX-6000D": Gpu(compute=RTX_6000D_COMPUTE, memory=1.57 / 8),
}
"""By a part of the product name. Peaks of NVIDIA's data sheets relative to GB200 (2500 TFLOPS in BF16 without sparsity,
and 8 TB/s), but for the compute of RTX 6000D. That is fitted: it is the only one that a published figure measures. RTX
PRO 6000 has 188 multiprocessors of the same kind, RTX 6000D 156."""

MODELS: Mapping[str, Llm] = {
    "qwen3.5-122b-a10b": Llm(parameters=122, active_parameters=10, bits=16, hidden_size=3072, vision_parameters=0.46),
    "qwen3.5-27b": Llm(parameters=27, active_parameters=27, bits=16, hidden_size=5120, vision_parameters=0.46),
    "qwen3.5-9b": Llm(parameters=9, active_parameters=9, bits=16, hidden_size=4096, vision_parameters=0.42),
    "qwen3.5-4b": Llm(parameters=4, active_parameters=4, bits=16, hidden_size=2560, vision_parameters=0.29),
}
"""By a part of the model's name. Vision encoders: published shares of the parameters; that of 122B is assumed
to be that of 27B."""

BITS = {"nvfp4": 4, "fp8": 8}


def known_gpu(product: str) -> Gpu | None:
    """The GPU with this product name, such as NVIDIA-GB200; None if it is unknown."""
    name = product.upper().replace(" ", "-").replace("_", "-")
    matching = [known for known in GPUS if known in name]
    return GPUS[max(matching, key=len)] if matching else None


def known_model(name: str) -> Llm | None:
    """The model with this name or path; None if it is unknown."""
    lower = name.lower()
    for part, llm in MODELS.items():
        if part in lower:
            bits = next((bits for suffix, bits in BITS.items() if suffix in lower), llm.bits)
            return Llm(
                parameters=llm.parameters,
                active_parameters=llm.active_parameters,
                bits=bits,
                hidden_size=llm.hidden_size,
                vision_parameters=llm.vision_parameters,
            )
    return None
