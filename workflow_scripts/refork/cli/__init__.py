"""The refork command."""
