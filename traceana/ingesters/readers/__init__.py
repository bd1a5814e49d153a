"""From files to blocks of rows: one file for each format."""
