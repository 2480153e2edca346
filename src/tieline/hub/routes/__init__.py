"""HTTP routes, one file per resource. Each file has `routes(hub)`, which the application is built from."""
