"""The guard of an HTTP endpoint: the resource server, and its verifiers of tokens and certificates."""
