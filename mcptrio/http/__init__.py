"""HTTP: an engine, the server's endpoint, the client, and the parts that they share."""
