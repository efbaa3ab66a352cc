"""The torch engine: causal models of transformers, resumed from keys and values."""
