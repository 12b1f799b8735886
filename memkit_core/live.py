"""What an open memory and its parts are when they are copied."""

from __future__ import annotations

from typing import Self

from memkit_core.errors import ConfigError


class Live:
    """An open memory or a part of one. There is one of it: copying or deep-copying returns the same object."""

    __slots__ = ()

    def __copy__(self) -> Self:
        """The same object."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """The same object; frameworks deep-copy what holds a memory."""
        return self

    def __reduce__(self) -> str | tuple[object, ...]:
        """Refuse to be pickled.

        Raises:
            ConfigError: always; only a `Memory` knows how to open its file again.
        """
        raise ConfigError(
            f"a {type(self).__name__} is a part of an open memory and cannot be pickled; pickle the memory, and "
            "take this from the one that is unpickled"
        )
