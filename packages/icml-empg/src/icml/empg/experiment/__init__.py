"""The CPU experiment behind ``icml empg reproduce``: KeyDoor by table and by language model."""
