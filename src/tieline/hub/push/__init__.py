"""Web Push: what to push (`rules`, pure), when (`notifier`), to whom (`subscriptions`), how (`sender`)."""
