"""HTTP/2 through Hypercorn, on connections that the engine has accepted."""
