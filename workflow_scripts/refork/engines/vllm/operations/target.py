"""What operations are probed on: drawn numbers, on a device and in a dtype."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Target:
    """Where numbers lie, and in which dtype."""

    device: str
    dtype: torch.dtype

    def draw(self, *shape: int, seed: int, scale: float = 1.0) -> torch.Tensor:
        """Draw normal numbers of a standard deviation."""
        generator = torch.Generator(self.device).manual_seed(seed)
        drawn = torch.randn(shape, generator=generator, device=self.device)
        return (drawn * scale).to(self.dtype)

    def whole(self, numbers: list[int] | range) -> torch.Tensor:
        """Return whole numbers as int32."""
        return torch.tensor(list(numbers), dtype=torch.int32, device=self.device)
