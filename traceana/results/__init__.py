"""Result classes, declarations of result tables, and how both are displayed."""
