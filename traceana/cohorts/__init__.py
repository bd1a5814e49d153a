"""Which rows of a trace are analyzed, and how they were observed."""
