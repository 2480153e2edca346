"""HTTP: the server, routing, requests, responses, and the API's own description."""
