"""Runs the command line: ``python -m mcptrio``."""

from mcptrio.cli import main

main()
