"""HTTP/1.1: the server, and the client."""
