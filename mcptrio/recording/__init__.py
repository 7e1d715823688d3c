"""Recordings of the messages of a server or client: writing, reading, and answering from them."""
