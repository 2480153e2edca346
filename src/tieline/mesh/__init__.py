"""The mesh: agents in different harnesses, driven sessions and people find each other and exchange messages."""
