"""Talking to a kernel: one conversation, whichever wire carries it."""
