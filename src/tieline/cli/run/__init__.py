"""What `tieline run` needs: one turn, here or at the hub of this machine."""
