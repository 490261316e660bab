"""What stands for the array types of frameworks that are not installed."""

from typing import Any, TypeAlias

Array: TypeAlias = Any
Tensor: TypeAlias = Any
ndarray: TypeAlias = Any
