"""Qwen Code, as people run it themselves."""
