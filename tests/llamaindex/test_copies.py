"""What `MemkitMemory` promises of its settings, copies and serialised forms."""

import copy
import json
import pickle
import subprocess
import sys
import textwrap

import pytest
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from pydantic import ValidationError

from llamaindex_memkit import MemkitMemory
from memkit_core import (
    ConfigError,
    Memory,
)


def user(text):
    return ChatMessage(role="user", content=text)


def test_unknown_keywords(chat, memory):
    """An unknown keyword is an error wherever it is given."""
    with pytest.raises(TypeError, match="tokenlimit"):
        chat(tokenlimit=5)
    with pytest.raises(ValidationError, match="tokenlimit"):
        MemkitMemory(memory=memory, session_id="s", user_path=[("user", "u")], tokenlimit=5)
    with pytest.raises(TypeError, match="token_count"):
        chat().get(token_count=5)


@pytest.mark.parametrize("setting", [{"token_limit": 0}, {"top_k": 0}, {"chat_history_token_ratio": 1.5}])
def test_unusable_settings(chat, setting):
    """A setting that makes no sense is refused."""
    with pytest.raises(ValidationError, match=next(iter(setting))):
        chat(**setting)


def test_needs_a_memory():
    """Without a memory or the path of one there is a typed error that says what to give."""
    with pytest.raises(ConfigError, match=r"needs memory=Memory\.open"):
        MemkitMemory(session_id="s", user_path=[("user", "u")])
    with pytest.raises(ConfigError, match=r"memkit_core\.Memory"):
        MemkitMemory.from_defaults(memory="memory.db", session_id="s", user_id="u")


def test_dict_round_trip(memory, chat, path):
    """`to_dict` is JSON, names file and scope and no content, and `from_dict` reconnects."""
    adapter = chat(token_limit=500, top_k=3)
    adapter.put(user("secret words"))
    data = json.loads(json.dumps(adapter.to_dict()))
    assert data["path"] == str(path)
    assert "secret" not in json.dumps(data)
    again = MemkitMemory.from_dict(data)
    assert again._memory is memory
    assert again.to_dict() == adapter.to_dict()
    assert again.get_all() == [user("secret words")]
    assert MemkitMemory.from_json(adapter.to_json()).get_all() == [user("secret words")]


def test_dict_outlives_the_memory(path):
    """After the memory was closed, `from_dict` opens the file again; both adapters share it."""
    with Memory.open(path) as memory:
        adapter = MemkitMemory.from_defaults(memory=memory, session_id="s", user_id="u")
        adapter.put(user("hello"))
        data = adapter.to_dict()
    first, second = MemkitMemory.from_dict(data), MemkitMemory.from_dict(data)
    assert first._memory is second._memory
    assert first._memory is not memory
    assert first.get_all() == [user("hello")]
    first._memory.close()


def test_dict_without_its_file(tmp_path, chat):
    """A file that is not there is a typed error, and is not made."""
    data = chat().to_dict() | {"path": str(tmp_path / "gone.db")}
    with pytest.raises(ConfigError, match=r"gone\.db"):
        MemkitMemory.from_dict(data)
    assert not (tmp_path / "gone.db").exists()


def test_from_dict_into_a_given_memory(tmp_path, chat):
    """`from_dict(data, memory=...)` takes the memory that is given."""
    with Memory.open(tmp_path / "other.db") as other:
        again = MemkitMemory.from_dict(chat().to_dict(), memory=other)
        assert again.path == str(tmp_path / "other.db")
        assert again.get_all() == []


def test_adapters_share_the_memory(memory, chat):
    """Adapters on one memory share it, and see what the others put at once."""
    one, two = chat(), chat()
    assert one._memory is two._memory is memory
    one.put(user("hello"))
    assert two.get_all() == [user("hello")]


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda m: m.model_copy(), lambda m: m.model_copy(deep=True)],
    ids=["copy", "deepcopy", "model_copy", "model_copy deep"],
)
def test_copies(memory, chat, copied):
    """Copies of each kind share the store and work, also inside another object; so does the original (B71)."""
    adapter = chat(top_k=3, working=memory.working)
    adapter.put(user("hello"))
    for other in (copied(adapter), copy.deepcopy({"state": [adapter]})["state"][0]):
        other.put(user("from the copy"))
        assert other._memory is memory
        assert other.top_k == 3
    adapter.put(user("from the original"))
    texts = ["hello", "from the copy", "from the copy", "from the original"]
    assert [message.content for message in adapter.get_all()] == texts


def test_pickle(chat):
    """A pickled adapter finds its file and session again, here and in another process (B71)."""
    adapter = chat(top_k=3)
    adapter.put(user("hello"))
    data = pickle.dumps(adapter)
    again = pickle.loads(data)
    assert again.get_all() == [user("hello")]
    assert again.top_k == 3
    again._memory.close()
    code = "import pickle, sys; m = pickle.load(sys.stdin.buffer); print(m.get_all()[0].content)"
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "hello"
    adapter.put(user("still works"))


def test_another_process_reads_it(path, chat):
    """What was put is in the file: another process reads it while this one goes on."""
    chat().put(user("hello from here"))
    code = textwrap.dedent(
        f"""
        from llamaindex_memkit import MemkitMemory
        from memkit_core import Memory
        with Memory.open({str(path)!r}) as memory:
            adapter = MemkitMemory.from_defaults(memory=memory, session_id="s1", user_id="alice")
            print(adapter.get_all()[0].content)
            print(MemkitMemory.from_defaults(memory=memory, session_id="s2", user_id="alice").get(input="hello")[0].content)
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[0] == "hello from here"
    assert ">hello from here</turn>" in done.stdout


def test_tool_calls_survive(chat, parcel):
    """A turn with tool calls comes back equal, calls and results included."""
    adapter = chat()
    adapter.put_messages(parcel)
    assert adapter.get_all() == adapter.get() == parcel
    assert isinstance(adapter.get()[1].blocks[0], ToolCallBlock)
