"""The types of the protocol as classes, in the newest revision, with the history of their fields.

``mcptrio.protocol.revisions`` converts them to and from each revision.
"""
