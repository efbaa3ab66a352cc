"""Outcome curves o_t: draws in, smoothed curves and forks out."""
