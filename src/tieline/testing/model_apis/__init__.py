"""The vendors' wire formats, as a scripted model speaks them. One file each; see `testing.model_server.ModelApi`."""
