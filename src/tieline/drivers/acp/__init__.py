"""Any agent that speaks ACP. `driver` is the way in."""
