"""From pydantic models to CustomResourceDefinitions and their reference, and the chart's rights: a build-time tool.

``python -m crdgen`` writes ``crds/``, ``docs/api-reference.md`` and the chart's rights on children. Only what is on the
compiler's allow-list is translated; everything else is refused with the path of the field.
"""

from crdgen.crd import compile_crd, compile_schema
from crdgen.errors import CompileError

__all__ = ["CompileError", "compile_crd", "compile_schema"]
