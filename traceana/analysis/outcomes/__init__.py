"""How long things run and how they end, by GPU type or any other feature."""
