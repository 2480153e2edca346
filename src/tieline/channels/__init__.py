"""Code that delivers envelopes, one kind of endpoint each. `base` is the contract."""
