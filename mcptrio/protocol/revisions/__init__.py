"""The revisions of the protocol: their behaviour, and their forms of the model.

Other rooms ask a revision for a feature or a conversion. They never compare versions.
"""
