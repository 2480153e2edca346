"""The vendors' wire formats, as a scripted model speaks them. One file each; see `tieline.testing.model.Voice`."""
