"""From pydantic models to CustomResourceDefinitions and their reference: a build-time tool.

``python -m epd_operator.api.compiler`` writes ``crds/`` and ``docs/api-reference.md``. Only what is on the compiler's
allow-list is translated; all else is refused with the path of the field.
"""

from epd_operator.api.compiler.crd import compile_crd, compile_schema
from epd_operator.api.compiler.errors import CompileError

__all__ = ["CompileError", "compile_crd", "compile_schema"]
