"""The composition root: the processes that run for long, put together from the concrete parts."""
