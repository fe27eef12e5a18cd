"""From pydantic models to CustomResourceDefinitions and their reference: a build-time tool.

``python -m crdgen`` writes ``crds/`` and ``docs/api-reference.md``. Only what is on the compiler's
allow-list is translated; all else is refused with the path of the field.
"""

from crdgen.crd import compile_crd, compile_schema
from crdgen.errors import CompileError

__all__ = ["CompileError", "compile_crd", "compile_schema"]
