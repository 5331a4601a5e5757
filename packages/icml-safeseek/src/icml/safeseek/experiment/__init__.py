"""Parts of the experiment behind ``icml safeseek reproduce``."""
