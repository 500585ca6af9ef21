"""The commands of the command line, one module each, and their shared helpers."""
