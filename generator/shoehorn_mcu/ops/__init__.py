"""The ops, independent of any target: attributes, shapes, rows, laws, facts for the passes, a numpy reference.

Each module lists its ops in `OPS` and its public names in `__all__`; this module joins them, so that a new op changes
only its own module.
"""

from shoehorn_mcu.ir import Op
from shoehorn_mcu.ops import (
    conv,
    detection,
    elementwise,
    indexed,
    insert,
    layout,
    maps,
    partial,
    pool,
    recurrent,
    resize,
    signal,
    stream,
    sums,
    svdf,
    tables,
    unary,
)
from shoehorn_mcu.ops.clamp import Clamp, Clamped, RealClamp
from shoehorn_mcu.ops.conv import *  # noqa: F403
from shoehorn_mcu.ops.detection import *  # noqa: F403
from shoehorn_mcu.ops.elementwise import *  # noqa: F403
from shoehorn_mcu.ops.indexed import *  # noqa: F403
from shoehorn_mcu.ops.insert import *  # noqa: F403
from shoehorn_mcu.ops.layout import *  # noqa: F403
from shoehorn_mcu.ops.linear import LinearOp
from shoehorn_mcu.ops.maps import *  # noqa: F403
from shoehorn_mcu.ops.partial import *  # noqa: F403
from shoehorn_mcu.ops.pool import *  # noqa: F403
from shoehorn_mcu.ops.recurrent import *  # noqa: F403
from shoehorn_mcu.ops.resize import *  # noqa: F403
from shoehorn_mcu.ops.signal import *  # noqa: F403
from shoehorn_mcu.ops.stream import *  # noqa: F403
from shoehorn_mcu.ops.sums import *  # noqa: F403
from shoehorn_mcu.ops.svdf import *  # noqa: F403
from shoehorn_mcu.ops.tables import *  # noqa: F403
from shoehorn_mcu.ops.unary import *  # noqa: F403

# Ops of model files.
MODEL_OPS: tuple[type[Op], ...] = (
    *conv.OPS,
    *elementwise.OPS,
    *unary.OPS,
    *tables.OPS,
    *pool.OPS,
    *resize.OPS,
    *layout.OPS,
)

# Ops that graph rewrites add (schedule/split.py, the passes fuse-tables, fuse-shuffle, sum-rows and insert-slices).
MADE_OPS: tuple[type[Op], ...] = (*partial.OPS, *sums.OPS, *insert.OPS, unary.Table, layout.PickChannels)

OPS: tuple[type[Op], ...] = (
    *MODEL_OPS,
    *recurrent.OPS,
    *svdf.OPS,
    *maps.OPS,
    *indexed.OPS,
    *signal.OPS,
    *detection.OPS,
    *stream.OPS,
    *MADE_OPS,
)

__all__ = ["MADE_OPS", "MODEL_OPS", "OPS", "Clamp", "Clamped", "LinearOp", "RealClamp"]
__all__ += conv.__all__ + elementwise.__all__ + unary.__all__ + pool.__all__ + resize.__all__ + layout.__all__
__all__ += maps.__all__ + indexed.__all__ + recurrent.__all__ + signal.__all__ + stream.__all__
__all__ += detection.__all__ + tables.__all__ + partial.__all__ + insert.__all__
__all__ += svdf.__all__ + sums.__all__
