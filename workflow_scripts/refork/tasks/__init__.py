"""Questions, prompts and graders: question to token ids, completion to outcome."""
