"""refork: where a language model's answer forks, and how much of a token credit is replay noise."""

__version__ = "0.1.0"
