"""Web Push: what to push (`decide`, pure), to whom (`subscriptions`), by which key (`vapid`), how (`courier`, which
keeps to `endpoints` that may be reached), and when (`pushes`, the part that a hub holds)."""
