"""The revisions of the protocol: their behaviour, and their forms of the model.

Other layers ask a revision for a trait or for a conversion, never which revision it is.
"""
