"""The CPU experiment behind ``icml gdpo reproduce``: task, training of the arms, claims."""
