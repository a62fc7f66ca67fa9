"""The version of schedlang."""

__version__ = "0.1.0"
