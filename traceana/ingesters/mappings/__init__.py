"""Mappings of formats whose columns are fixed: one TOML each."""
