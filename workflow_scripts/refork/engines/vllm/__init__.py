"""The vLLM engine: an offline engine of vLLM in this process, stepped and drawn from by ours."""
