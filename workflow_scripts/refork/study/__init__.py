"""A study: its config, lock file, stages, hashes, paths and cost."""
