"""The version of this package, in a module that imports nothing, so that every package can read it."""

__version__ = "0.2.0"
