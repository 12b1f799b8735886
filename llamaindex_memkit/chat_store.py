"""`MemkitChatStore`: what LlamaIndex's chat buffers hold as `chat_store=`."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.storage.chat_store.loading import RECOGNIZED_CHAT_STORES
from pydantic import ConfigDict, PrivateAttr

from llamaindex_memkit.convert import to_chat_message, to_message
from llamaindex_memkit.histories import make_history
from llamaindex_memkit.recalled import checked_messages, without_blocks
from llamaindex_memkit.reopening import remember_open, reopened
from memkit_core import ConfigError, InvalidInputError, Memory, Message, Scope, ScopeError
from memkit_core.conversation.windows import repaired
from memkit_core.errors import shown


class MemkitChatStore(BaseChatStore):
    """The sessions of one user in a `Memory`, for `chat_store=` of a chat buffer.

    Instantiate:
        ```python
        from llama_index.core.memory import ChatMemoryBuffer
        from llamaindex_memkit import MemkitChatStore
        from memkit_core import Memory

        store = MemkitChatStore(memory=Memory.open("memory.db"), user_id="alice")
        buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="s1")
        ```

    A key is the id of a session of this user: any text of 1 to 4,096 characters, taken as it is. It
    is the session that `MemkitMemory` and every other adapter write, and what is said in it is found
    by `memory.recall(..., include_messages=True)`. What is added is committed, every field of it,
    when the call returns, and read in the order it was added.

    What is read is valid for a chat API: a tool call without a result is answered by a marked
    stand-in, a result without a call and an answer that holds nothing are left out, and each result
    stands behind its call. Positions count what is read. `memory.sessions.read` is the log itself.

    A buffer gives a model the newest messages alone; use `MemkitMemory` to recall older ones and
    memories. `ChatSummaryMemoryBuffer` deletes and writes the whole session anew whenever it is read, so
    what it summarised is gone from the session. LlamaIndex's own `Memory` takes another kind of store:
    give it a `MemkitMemoryBlock`.

    Every method may be called from any thread; the async ones run in one. All adapters of one
    `Memory` share it, copies and deep copies too; close the `Memory`, not this. `to_dict` and
    pickling keep the file and the user, never content.

    Attributes:
        user_path: (kind, id) pairs of the user's scope, broadest first, as in `Scope.path`.
        path: the file of the memory, None when it keeps none.
    """

    model_config = ConfigDict(extra="forbid")

    user_path: tuple[tuple[str, str], ...]
    path: str | None = None

    _memory: Memory = PrivateAttr()

    def __init__(
        self,
        *,
        memory: Memory | None = None,
        user_id: str | Scope | None = None,
        user_path: Any = None,
        path: str | None = None,
    ) -> None:
        """Hold `memory`, which stays the caller's to close, or reconnect to the file `path`.

        Args:
            memory: the open memory.
            user_id: whose sessions, or a user scope with its workspace and org.
            user_path: the user as `to_dict` has it, in place of `user_id`.
            path: a memory's file; only without `memory`.

        Raises:
            ConfigError: neither a memory nor the path of a memory's file.
            ScopeError: no user, or an id that is none.
        """
        if memory is None and path is None:
            raise ConfigError(
                "MemkitChatStore needs memory=Memory.open(...), or the path of a memory's file to reconnect to"
            )
        if memory is not None and not isinstance(memory, Memory):
            raise ConfigError(f"memory must be a memkit_core.Memory, got {shown(memory)}")
        if (user_id is None) == (user_path is None):
            raise ScopeError(
                "MemkitChatStore needs its user: give user_id='alice' or user_id=Scope.user(...)"
            )
        whose = _user_of(user_path) if user_id is None else user_id
        # The scope of any session tells whether it is a user.
        owner = Scope.session("any", user=whose).parent
        assert owner is not None
        live = reopened(str(path)) if memory is None else memory
        data: dict[str, Any] = {"user_path": owner.path, "path": live.path}
        super().__init__(**data)
        self._memory = live
        remember_open(live)

    @classmethod
    def class_name(cls) -> str:
        """The name of this class in serialised form."""
        return "MemkitChatStore"

    @property
    def user_scope(self) -> Scope:
        """The user whose sessions these are."""
        return Scope.from_path(self.user_path)

    def scope(self, key: str) -> Scope:
        """The session of a key, to pass to the verbs of `Memory`.

        Raises:
            ScopeError: a key that is no id.
        """
        return Scope.session(key, user=self.user_scope)

    # ------------------------------------------------------------------ reading

    def get_messages(self, key: str) -> list[ChatMessage]:
        """All that was said in a session, oldest first, as new objects; [] for an unknown key."""
        return [
            to_chat_message(message) for message in self._memory.sessions.for_model(scope=self.scope(key))
        ]

    def get_keys(self) -> list[str]:
        """The ids of the user's sessions that have messages, the last active first."""
        return [one.scope.id for one in self._memory.sessions.list(scope=self.user_scope) if one.messages]

    # ------------------------------------------------------------------ writing

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Append one message. Text that `MemkitMemory` recalled is left out of it: it was not said.

        Raises:
            InvalidInputError: a message that cannot be stored; nothing is written.
        """
        given = without_blocks(checked_messages([message]))
        self._memory.sessions.append(map(to_message, given), scope=self.scope(key))

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Make `messages` all that was said in a session, in one transaction.

        What it already begins with stays as it is, so one who sets the growing history each time
        stores each message once. Notes, run states and memories of the session stay.

        Raises:
            InvalidInputError: a message that cannot be stored; nothing changes.
        """
        make_history(self._memory, messages, scope=self.scope(key))

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Delete the messages of a session with their searchable turns, and return them.

        None when there are none. Its notes, run states and memories stay, since buffers do this in
        the middle of a conversation; `memory.sessions.clear` deletes the session.
        """
        log = self._memory.sessions.read(scope=self.scope(key))
        self._memory.sessions.delete([str(message.id) for message in log], scope=self.scope(key))
        return [to_chat_message(message) for message in repaired(log)] if log else None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete the message at a position of `get_messages`, negative ones from the end, and return it.

        None where no message is, or a stand-in.

        Raises:
            InvalidInputError: `idx` is no int.
        """
        if not isinstance(idx, int) or isinstance(idx, bool):
            raise InvalidInputError(f"delete_message: idx must be an int, got {shown(idx)}")
        sessions, scope = self._memory.sessions, self.scope(key)
        while True:
            view = sessions.for_model(scope=scope)
            if not -len(view) <= idx < len(view):
                return None
            found = view[idx]
            if found.position is None or self._deleted(found, scope):
                return None if found.position is None else to_chat_message(found)

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Delete the message that was added last, and return it; None when there is none."""
        sessions, scope = self._memory.sessions, self.scope(key)
        while newest := sessions.read(scope=scope, last=1):
            if self._deleted(newest[0], scope):
                return to_chat_message(newest[0])
        return None

    def _deleted(self, message: Message, scope: Scope) -> bool:
        """Whether this call deleted it: another may have been faster."""
        return self._memory.sessions.delete([str(message.id)], scope=scope).messages > 0

    # ------------------------------------------------------------------ being sent around

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Where the memory lives and whose sessions, as JSON; `from_dict` reconnects.

        Raises:
            ConfigError: the memory keeps no file.
        """
        if self.path is None:
            raise ConfigError(
                "a MemkitChatStore whose Memory keeps no file cannot be serialised; use Memory.open with a path, "
                "or make the store again with memory=..."
            )
        return {**self.model_dump(mode="json", **kwargs), "class_name": self.class_name()}

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as "open this file again", with the `Memory`'s own settings and embedder.

        One whose memory keeps no file can be pickled, and unpickling it raises a `ConfigError`: a buffer
        drops what cannot be pickled, from the live object too.
        """
        memory = None if self.path is None else self._memory
        return _unpickled, (type(self), self.model_dump(mode="json"), memory)


def _unpickled(kind: type[MemkitChatStore], data: dict[str, Any], memory: Memory | None) -> MemkitChatStore:
    return kind.from_dict(data, memory=memory)


def _user_of(path: object) -> Scope:
    try:
        return Scope.from_path(tuple((kind, owner) for kind, owner in path))  # type: ignore[attr-defined]  # what is no list of pairs raises
    except (TypeError, ValueError) as error:
        raise ScopeError(f"MemkitChatStore: {shown(path)} is no path of a user: {error}") from error


# By it the `from_dict` of a buffer finds the class of its store.
RECOGNIZED_CHAT_STORES[MemkitChatStore.class_name()] = MemkitChatStore  # type: ignore[assignment]  # typed by its one entry
