"""``python -m epdctl``."""

from epdctl.app import app

app(prog_name="epdctl")
