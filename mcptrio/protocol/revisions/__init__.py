"""The revisions of the protocol: how each behaves, and how each writes the model.

The one rule: a layer asks a revision for a trait or has it write a value; it never asks which revision it is.
"""
