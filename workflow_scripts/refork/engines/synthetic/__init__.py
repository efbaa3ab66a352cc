"""The synthetic engine: a Markov chain whose outcomes and credits are known in closed form."""
