"""Jobs, their sizes, when they arrive and what they ask for."""
