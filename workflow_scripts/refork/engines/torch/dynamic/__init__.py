"""Any causal model of transformers whose state is keys and values, run by its own forward."""
