"""Sizes of the models whose operations are probed; weights and activations are drawn."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a Llama-like decoder."""

    name: str
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    rope_theta: float

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """Features in and out of every matrix of a layer, and of the last."""
        query, key = self.heads * self.head_size, self.kv_heads * self.head_size
        return {
            "qkv": (self.hidden, query + 2 * key),
            "attention out": (query, self.hidden),
            "gate and up": (self.hidden, 2 * self.intermediate),
            "down": (self.intermediate, self.hidden),
            "vocabulary": (self.hidden, self.vocabulary),
        }


MODELS = {
    shape.name: shape
    for shape in (
        ModelShape("smollm2-135m", 576, 9, 3, 64, 1536, 49_152, 1e5),
        ModelShape("llama-3-8b", 4096, 32, 8, 128, 14_336, 128_256, 5e5),
    )
}
"""Models by name, with the sizes of their published config.json."""
