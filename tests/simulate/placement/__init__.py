"""Tests of the simulation of placement."""
