"""Kernels on the CPU, compiled by numba: a row's numbers depend on nothing but that row."""
