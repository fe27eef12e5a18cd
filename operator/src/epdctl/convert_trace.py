"""``epdctl convert-trace``: traces of other programs as traces of ``epdctl simulate``."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from epdctl.foreign_traces import ForeignRequest, TraceFormat, read
from epdctl.output import fail
from epdctl.simulation_input import ImageSize


def convert_trace(
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The trace.")],
    form: Annotated[TraceFormat, typer.Option("--from", help="Its format.", show_default=False)],
    image_size: Annotated[
        str, typer.Option(metavar="WIDTHxHEIGHT", help="Size of each image: these formats do not contain it.")
    ] = "1024x1024",
    image_tokens: Annotated[
        int, typer.Option(min=0, help="Tokens of each image, if the model scales it down. 0: one per 32 x 32 pixels.")
    ] = 0,
) -> None:
    """Convert a trace to the JSON lines that `epdctl simulate` reads, on standard output.

    aiperf: profile_export.jsonl. mooncake: the trace format of Mooncake, which aiperf also replays. azure: the LLM and
    LMM inference traces of AzurePublicDataset, as CSV.

    Example: epdctl convert-trace --from mooncake conversation_trace.jsonl > trace.jsonl
    """
    try:
        size = _size(image_size, image_tokens)
        requests = sorted(read(file, form=form), key=lambda request: request.seconds)
    except ValueError as error:
        raise fail(error) from None
    start = requests[0].seconds
    for request in requests:
        typer.echo(json.dumps(_line(request, size=size, start=start)))


def _size(text: str, tokens: int) -> ImageSize:
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise ValueError(f"--image-size: {text!r}: write WIDTHxHEIGHT in pixels, for example 1024x768")
    try:
        return ImageSize.model_validate({"width": width, "height": height, "tokens": tokens or None})
    except ValueError:
        raise ValueError(f"--image-size: {text!r}: use 1 to 100000 pixels; --image-tokens: at most 10000000") from None


def _line(request: ForeignRequest, *, size: ImageSize, start: float) -> dict[str, Any]:
    # Prompts of traces with images contain the tokens of the images.
    image_tokens = request.images * size.image().tokens if request.has_image_tokens else 0
    line: dict[str, Any] = {
        "timestamp": round(request.seconds - start, 6),
        "textTokens": max(request.prompt_tokens - image_tokens, 1),
        "outputTokens": max(request.output_tokens, 1),
    }
    if request.images:
        line["images"] = [size.model_dump(by_alias=True, exclude_none=True)] * request.images
    return line
