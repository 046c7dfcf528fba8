"""Models and data that lie beside the checkout and are no part of it; tests that want them skip where they are not."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODELS = SHARED / "models"
DATA = SHARED / "data"

needs_shared = pytest.mark.skipif(not MODELS.is_dir(), reason="the models beside the checkout are not there")
