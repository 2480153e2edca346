"""What holds for every test: a busy machine is no failure of a property test."""

from hypothesis import HealthCheck, settings

settings.register_profile("tieline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tieline")
