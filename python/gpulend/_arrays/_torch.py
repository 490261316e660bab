"""`torch.Tensor` for type checkers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    try:
        from torch import *  # noqa: F403
    except ImportError:
        from gpulend._arrays.absent import *  # noqa: F403
