"""The part of a completion that a model thinks before it answers."""


def opening(think_end: str) -> str:
    """Make the opening mark of a think part from its closing one: `<think>` for `</think>`."""
    return think_end.replace("/", "", 1)


def without_thinking(text: str, think_end: str, opened: bool) -> str | None:
    """Keep what stands behind the last `think_end`; None where a think part is unfinished.

    Parameters
    ----------
    think_end
        Closing mark; empty: nothing is cut.
    opened
        The prompt itself opened the think part.
    """
    if not think_end:
        return text
    _, end, answer = text.rpartition(think_end)
    start = opening(think_end)
    unfinished = (opened and not end) or (start != think_end and start in answer)
    return None if unfinished else answer
