"""Entry of ``python -m epd_local``."""

from __future__ import annotations

from epd_local.cli import main

raise SystemExit(main())
