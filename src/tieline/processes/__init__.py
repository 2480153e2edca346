"""Child processes: started, watched, and ended with their owner. Nothing here knows an agent."""
