"""The mark of an argument that was not given, where None means something or must not mean "all"."""

from __future__ import annotations


class Omitted:
    """Stands for an argument that was not given."""

    def __repr__(self) -> str:
        """As it is shown in a signature."""
        return "OMITTED"


OMITTED = Omitted()
"""The default of such an argument."""
