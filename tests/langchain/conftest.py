"""What the LangChain tests share: a memory in a real file, histories on it, and a scripted model."""

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory

from langchain_memkit import MemkitChatMessageHistory, MemkitRetriever, MemkitVectorStore
from memkit_core import Memory, RecordType, Scope


class SteppedClock:
    """A clock that stands still until a test moves it."""

    def __init__(self):
        self.now = datetime(2026, 5, 4, 12, tzinfo=UTC)

    def __call__(self):
        return self.now

    def move(self, seconds):
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return SteppedClock()


class Axes(Embeddings):
    """Embeds by the first letter, so that angles are exact; `refused` texts raise, and so does all when down."""

    model = "axes"
    _directions = {"a": [1, 0], "b": [0, 1], "c": [0.5, 3**0.5 / 2], "z": [-1, 0]}  # noqa: RUF012 - never changed

    def __init__(self):
        self.down = False
        self.refused = set()
        self.threads = set()

    def embed_documents(self, texts):
        self.threads.add(threading.get_ident())
        if self.down or self.refused & set(texts):
            raise RuntimeError("the model refuses")
        return [self._directions.get(text[:1], [0, 0]) for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.fixture
def axes():
    return Axes()


@pytest.fixture
def store(memory, alice):
    return MemkitVectorStore(memory=memory, scope=alice)


@pytest.fixture
def angles(memory, alice, axes):
    """A store of five texts at 0, 90, 60 and 180 degrees to "a", and one that embeds to zero."""
    store = MemkitVectorStore(memory=memory, scope=alice, name="angles", embedding=axes)
    store.add_texts(["a", "b", "c", "z", "?"], ids=["a", "b", "c", "z", "zero"])
    return store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path, clock):
    with Memory.open(path, clock=clock) as opened:
        yield opened


@pytest.fixture
def alice():
    return Scope.user("alice")


@pytest.fixture
def history(memory):
    return MemkitChatMessageHistory(memory, session_id="s1", user_id="alice")


@pytest.fixture
def scripted():
    """A chat model that says these texts one after the other, in chunks when streamed."""

    def build(*answers):
        return GenericFakeChatModel(messages=iter([AIMessage(answer) for answer in answers]))

    return build


@pytest.fixture
def talk(memory, scripted):
    """A chain with memory that says these answers; `seen` collects each prompt it was given."""

    def build(*answers, user_id="alice", seen=None):
        prompt = ChatPromptTemplate.from_messages(
            [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{question}")]
        )

        def note(value):
            if seen is not None:
                seen.append([message.text for message in value.to_messages()])
            return value

        return RunnableWithMessageHistory(
            prompt | note | scripted(*answers),
            lambda session_id: MemkitChatMessageHistory(memory, session_id=session_id, user_id=user_id),
            input_messages_key="question",
            history_messages_key="history",
        )

    return build


@pytest.fixture
def bob():
    return Scope.user("bob")


@pytest.fixture
def filled(memory, alice, bob):
    """alice's and bob's memories, and a conversation of alice."""
    memory.add(
        "Alice drinks green tea in the morning", scope=alice, tags=["Diet"], metadata={"pet": {"kind": "owl"}}
    )
    memory.add("Alice prefers tea over coffee", scope=alice, type=RecordType.PREFERENCE)
    memory.add("Bob drinks tea with milk", scope=bob)
    MemkitChatMessageHistory(memory, session_id="s1", user_id="alice").add_messages(
        [HumanMessage("I bought tea in Taipei", name="Alice")]
    )
    # Turns get their vectors in the background; a score read twice must not differ for that.
    assert memory.flush()
    return memory


@pytest.fixture
def retriever(filled, alice):
    return MemkitRetriever(memory=filled, scope=alice, k=5)


@pytest.fixture
def in_session():
    """The config that names a session."""
    return lambda session_id: {"configurable": {"session_id": session_id}}


@pytest.fixture
def python():
    """Runs code in another Python process and returns the finished process."""

    def run(code, *arguments):
        return subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
