"""Rules for asks: what people keep of their decisions, tested with what was asked before."""
