"""Devices: choice, determinism, memory."""
