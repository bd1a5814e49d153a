"""The sections of the report: one file each, found by their SECTION."""
