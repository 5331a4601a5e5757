"""``icml gdpo train``: from a YAML recipe to a running :class:`icml.gdpo.GDPOTrainer`."""
