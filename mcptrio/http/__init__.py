"""HTTP: an engine, the server's endpoint, the client's side, and what these share."""
