"""The ways a table is kept: append, merge, recompute. One contract (`base.Lane`): changes of inputs in, changes out."""
