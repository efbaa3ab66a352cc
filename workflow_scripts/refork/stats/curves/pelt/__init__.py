"""Change points by PELT: costs that ruptures takes too, and a compiled search that equals it."""
