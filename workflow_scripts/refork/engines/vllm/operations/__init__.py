"""Operations of a model one by one: which of them depends on what stands beside a row."""
