"""HTTP/2 and mounted ASGI applications through Hypercorn."""
