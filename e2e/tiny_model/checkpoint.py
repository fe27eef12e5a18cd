"""Writes an untrained Qwen3-VL checkpoint of a few million parameters, with every file that vLLM and Dynamo read.

``python3 checkpoint.py FOLDER``. Needs no download: the tokenizer is learnt from the lessons, the weights come from a
seed. Every picture is resized to about 128 x 128 pixels, which is 64 patches and 16 image tokens: vLLM's warm-up grows
with the largest allowed picture, and with the usual limit a CPU spends minutes in it.
"""
# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterator
from pathlib import Path

import torch
from lessons import FALLBACK, QUESTIONS, SMALL_TALK, SYSTEM_PROMPTS, WORDS
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration

from epd_local.pictures import COLOURS, SHAPES, SIZE

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}
{%- for part in message.content -%}
{%- if part.type == 'image' or 'image' in part or 'image_url' in part -%}
<|vision_start|><|image_pad|><|vision_end|>
{%- elif 'text' in part -%}
{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""
PATCH, MERGE, FRAMES = 16, 2, 2
PIXELS = {"shortest_edge": SIZE * SIZE, "longest_edge": SIZE * SIZE}
WIDTH = 256
VISION_WIDTH = 192


def write(folder: Path, *, seed: int) -> Qwen3VLForConditionalGeneration:
    """Write configuration, tokenizer, processors and random weights to *folder*, and return the model."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens, vocabulary = _write_tokenizer(folder)
    _write_json(folder / "config.json", _configuration(tokens, vocabulary))
    _write_processors(folder)
    _write_json(folder / "generation_config.json", {"eos_token_id": tokens["<|im_end|>"], "do_sample": False})
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(AutoConfig.from_pretrained(folder))
    save(model, folder)
    return model


def save(model: Qwen3VLForConditionalGeneration, folder: Path) -> None:
    """Write the weights of *model* in float16.

    Dynamo's encoder computes in the type that the configuration names, whatever ``--dtype`` says, and on a CPU never in
    float32. With float16 its embeddings lie four times nearer to those of an aggregated float32 worker than with
    bfloat16, so that tests can compare log-probabilities across topologies.
    """
    copy.deepcopy(model).to(torch.float16).save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # pods read it as another user


def _corpus() -> Iterator[str]:
    answers = [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES]
    texts = [*QUESTIONS, *SMALL_TALK, *SMALL_TALK.values(), FALLBACK, *SYSTEM_PROMPTS, *answers]
    yield from texts * 20
    yield from ("user\n", "assistant\n", "system\n") * 20
    yield from [f"x {word}" for word in WORDS]


def _write_tokenizer(folder: Path) -> tuple[dict[str, int], int]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=632, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(SPECIAL_TOKENS),
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    ids = {token: int(fast.convert_tokens_to_ids(token)) for token in SPECIAL_TOKENS}
    return ids, (len(fast) + 63) // 64 * 64


def _configuration(tokens: dict[str, int], vocabulary: int) -> dict[str, object]:
    text = {
        "model_type": "qwen3_vl_text",
        "hidden_size": WIDTH,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": vocabulary,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000,
        "rope_scaling": {"mrope_interleaved": True, "mrope_section": [12, 10, 10], "rope_type": "default"},
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": tokens["<|endoftext|>"],
        "eos_token_id": tokens["<|im_end|>"],
        "pad_token_id": tokens["<|endoftext|>"],
    }
    vision = {
        "model_type": "qwen3_vl",
        "depth": 4,
        "hidden_size": VISION_WIDTH,
        "intermediate_size": 2 * VISION_WIDTH,
        "num_heads": VISION_WIDTH // 64,
        "in_channels": 3,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": FRAMES,
        "out_hidden_size": WIDTH,
        "num_position_embeddings": (SIZE // PATCH) ** 2,
        "deepstack_visual_indexes": [1],
        "hidden_act": "gelu_pytorch_tanh",
        "initializer_range": 0.02,
    }
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "text_config": text,
        "vision_config": vision,
        "image_token_id": tokens["<|image_pad|>"],
        "video_token_id": tokens["<|video_pad|>"],
        "vision_start_token_id": tokens["<|vision_start|>"],
        "vision_end_token_id": tokens["<|vision_end|>"],
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def _write_processors(folder: Path) -> None:
    common = {
        "processor_class": "Qwen3VLProcessor",
        "patch_size": PATCH,
        "merge_size": MERGE,
        "temporal_patch_size": FRAMES,
        "size": PIXELS,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    steps = {"do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True}
    image = {"image_processor_type": "Qwen2VLImageProcessorFast", **common, **steps}
    _write_json(folder / "preprocessor_config.json", image)
    _write_json(folder / "video_preprocessor_config.json", {"video_processor_type": "Qwen3VLVideoProcessor", **common})


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    made = write(options.folder, seed=options.seed)
    print(f"{options.folder}: {sum(parameter.numel() for parameter in made.parameters()) / 1e6:.1f} million parameters")
