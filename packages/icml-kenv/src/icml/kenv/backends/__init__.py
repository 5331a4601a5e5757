"""Backends: a distribution's module, User-Mode Linux, a container, recorded consoles."""
