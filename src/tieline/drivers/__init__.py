"""Drivers: each file drives one harness headlessly, behind the contract in `base`."""
