"""The HTTP client: connections, requests, event streams, WebSockets, and the policy on addresses."""
