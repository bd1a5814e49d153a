"""From files to blocks of rows: one file for formats of one family."""
