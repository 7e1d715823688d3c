"""HTTP as clients use it: connections, requests, event streams, WebSockets, and the policy on addresses."""
