"""Rigs: how each real agent is set up over the scripted model. One file each; see `tieline.testing.rig.Rig`."""
