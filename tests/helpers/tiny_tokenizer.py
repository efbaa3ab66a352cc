"""A tokenizer whose tokens are bytes, with the marks of a chat and of a thinking model."""

from pathlib import Path

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ("<|start|>", "<|end|>")
THINK = ("<think>", "</think>")
CHAT_TEMPLATE = (
    "{% for turn in messages %}<|start|>{{ turn.role }}\n{{ turn.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking %}<think>\n{% endif %}{% endif %}"
)


def write_tokenizer(folder: Path, chat_template: str | None = CHAT_TEMPLATE) -> None:
    """Write tokenizer.json and what transformers reads beside it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=SPECIAL[1],
        additional_special_tokens=[SPECIAL[0], *THINK],
        chat_template=chat_template,
    )
    fast.save_pretrained(folder)
