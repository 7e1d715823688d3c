"""The protocol without I/O: messages, the model, the revisions, and the state of one connection."""
