"""What people and nodes connect to: HTTP, WebSocket, the page.

the whole      hub (its parts, entered together) · app (as an application) · server (its socket)
every door     gate · doors, origins, auth, devices, rates, once (may it pass?) · outgoing, problems (what goes back)
requests       routes/ · request, telling (what they share) · history (pages of a log) · spec, openapi · page
the stream     stream (WebSocket), sse · follower (one client) · fanout (all) · packets, ring, said · retention
the present    state · mirror (one table)
nodes          switch, orders (commands to them) · nodes (who is there) · link · handshake, traffic, backlog, replica
push/          pushes · decide (when, pure) · courier, endpoints, vapid (how) · subscriptions
looking on     logs · metrics · tracing
"""
