"""Generated work and deadlines: the throughput behind them, their rules, how tight they are."""
