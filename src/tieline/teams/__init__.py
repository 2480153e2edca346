"""Teams: several agents and people in one routed conversation."""
