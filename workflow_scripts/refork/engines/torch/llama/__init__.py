"""The fast path: decoders of the Llama family, without transformers' modules in the way."""
