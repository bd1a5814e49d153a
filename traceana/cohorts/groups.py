"""How many groups of a column are compared or shown."""

from typing import Final

MOST_GROUPS: Final = 20
"""A column with more values does not group; of its groups, the largest so many are shown."""
