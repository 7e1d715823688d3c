"""The revisions of the protocol: their features, and the conversion between the model and their wire forms.

Other packages use the features and the conversion of a revision. They never compare versions.
"""
