"""What flows through every graph: the typed state, its records and its reducers."""
