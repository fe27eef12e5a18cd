"""Compiles pydantic models to CustomResourceDefinitions and their reference documentation: a build-time tool.

``python -m crdgen`` writes ``crds/``, ``docs/api-reference.md`` and the chart's rights on children. It compiles only
what is on its allow-list, and refuses everything else with the path of the field.
"""

from crdgen.crd import compile_crd, compile_schema
from crdgen.errors import CompileError

__all__ = ["CompileError", "compile_crd", "compile_schema"]
