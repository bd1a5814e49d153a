"""Helios (SC'21): clusters of SenseTime."""
