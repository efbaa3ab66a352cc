"""Engines: a batch group of Arrow requests in, Arrow results out."""
