"""What changed over time: trends by period, outages and changes of level."""
