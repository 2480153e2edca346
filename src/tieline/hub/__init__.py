"""What people and nodes connect to: HTTP, WebSocket, the page.

hub, app    the hub's parts, entered together; and as an ASGI application
routes/     the API, one file per resource
http/       server, routing, requests, responses, OpenAPI, the page's files
security/   who may do what: middleware, keys of devices, the owner's socket, limits, the audit log
stream/     events to clients, live and after a cursor
nodes/      machines: links, replicated logs, commands
state/      the present, in memory
push/       Web Push
ops/        logs, metrics, traces, background tasks
"""
