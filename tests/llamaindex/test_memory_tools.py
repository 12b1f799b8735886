"""`manage_memory` and `search_memory` in LlamaIndex: agents with tools of their own; the model's words are scripted."""

import asyncio
import json
import threading

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock

from llamaindex_memkit import memory_tools
from memkit_core import Memory, Scope, ScopeError

ALICE = Scope.user("alice")
# Making an agent reads every attribute of it, pydantic's deprecated ones too.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning:inspect")
# LlamaIndex's own ReAct agent asks its context in a way that newer workflows warn of.
REACT = pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning")


@pytest.fixture
def memory():
    with Memory.open(":memory:") as memory:
        yield memory


def call(tool, **arguments):
    block = ToolCallBlock(tool_call_id="c1", tool_name=tool, tool_kwargs=arguments)
    return ChatMessage(role="assistant", blocks=[block])


async def run(agent, text):
    """The answer of an agent, and what each of its tool calls gave."""
    handler = agent.run(text)
    results = [
        event.tool_output async for event in handler.stream_events() if isinstance(event, ToolCallResult)
    ]
    return str(await handler), results


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_agent_keeps_a_memory(memory, scripted, streaming):
    """An agent creates and finds a memory, and the next one corrects and deletes it."""
    llm = scripted(
        call("manage_memory", content="Alice likes tea."), call("search_memory", query="tea"), "Noted."
    )
    agent = FunctionAgent(tools=memory_tools(memory, scope=ALICE), llm=llm, streaming=streaming)
    answer, (made, found) = await run(agent, "I like tea.")
    assert answer == "Noted."
    (shown,) = json.loads(found.content)
    assert made.content == f"created memory {shown['id']}"
    llm = scripted(
        call("manage_memory", action="update", id=shown["id"], content="Alice likes juice."),
        call("manage_memory", action="delete", id=shown["id"]),
        "Forgotten.",
    )
    agent = FunctionAgent(tools=memory_tools(memory, scope=ALICE), llm=llm, streaming=streaming)
    _, (updated, deleted) = await run(agent, "Juice. Forget it.")
    assert updated.content == f"updated memory {shown['id']}"
    assert deleted.content == f"Deleted memory {shown['id']}"
    assert memory.list_records(scope=ALICE).records == ()


@REACT
async def test_an_agent_that_writes_its_calls_as_text(memory, scripted):
    """A ReAct agent uses the tools by text, and a mistake is an observation."""
    memory.add("Alice likes tea.", scope=ALICE)
    llm = scripted(
        'Thought: I need a tool.\nAction: manage_memory\nAction Input: {"action": "update", "id": "12", "content": "x"}',
        'Thought: I search.\nAction: search_memory\nAction Input: {"query": "what to drink"}',
        "Thought: I can answer.\nAnswer: Tea.",
    )
    answer, (refused, found) = await run(
        ReActAgent(tools=memory_tools(memory, scope=ALICE), llm=llm), "Drink?"
    )
    assert answer == "Tea."
    assert refused.content.startswith("Not done: ")
    assert json.loads(found.content)[0]["content"] == "Alice likes tea."
    assert "search_memory" in llm.prompts[0][0].content


@pytest.mark.parametrize(
    "wrong",
    [
        call("manage_memory", action="update", id="12", content="x"),
        call("manage_memory", action="delete"),
        call("manage_memory", action="upsert", content="x"),
        call("manage_memory", content={"a": 1}),
        call("search_memory", query="x", limit="many"),
        call("search_memory", query="x", filter={"user_id": "bob"}),
        call("search_memory", query=None),
    ],
    ids=range(7),
)
async def test_a_mistake_does_not_end_the_run(memory, scripted, wrong):
    """Whatever a model calls a tool with, it is told what is wrong and the run goes on; nothing is written (B56)."""
    agent = FunctionAgent(tools=memory_tools(memory, scope=ALICE), llm=scripted(wrong, "Sorry."))
    answer, (told,) = await run(agent, "x")
    assert answer == "Sorry."
    assert told.content.startswith("Not done: ")
    assert not told.is_error
    assert memory.list_records(scope=ALICE).records == ()


async def test_both_ways(memory):
    """Each works with `call` and `acall`, and an agent's tools see no other scope than the app gave."""
    memory.add("Bob likes tea.", scope=Scope.user("bob"))
    manage, search = memory_tools(memory, scope=ALICE)
    assert manage.call(content="Alice likes tea.").content.startswith("created memory ")
    assert (await manage.acall(content="Alice likes milk.")).content.startswith("created memory ")
    for found in (search.call(query="likes"), await search.acall(query="likes")):
        assert {one["content"] for one in json.loads(found.content)} == {
            "Alice likes tea.",
            "Alice likes milk.",
        }
    with pytest.raises(ScopeError):
        memory_tools(memory, scope="alice")


def test_what_the_model_is_shown(memory):
    """The model sees names, descriptions and arguments, and only the actions that it may use."""
    manage, search = memory_tools(
        memory, scope=ALICE, actions_permitted=["delete"], instructions="Only when asked."
    )
    assert (manage.metadata.name, search.metadata.name) == ("manage_memory", "search_memory")
    assert manage.metadata.description.startswith("Delete a memory")
    assert manage.metadata.description.endswith("Only when asked.")
    arguments = manage.metadata.get_parameters_dict()["properties"]
    # One choice is no list of them to pydantic.
    assert arguments["action"].get("enum", [arguments["action"].get("const")]) == ["delete"]
    assert "id of the memory" in arguments["id"]["description"]
    shown = search.metadata.get_parameters_dict()
    assert (shown["required"], shown["properties"].keys()) == (
        ["query"],
        {"query", "limit", "offset", "filter"},
    )


async def test_the_loop_is_not_blocked(memory, monkeypatch):
    """While a tool waits for the store, other tasks run."""
    waiting, go = threading.Event(), threading.Event()
    recall = memory.recall

    def slow(*args, **kwargs):
        waiting.set()
        assert go.wait(10)
        return recall(*args, **kwargs)

    monkeypatch.setattr(memory, "recall", slow)
    _, search = memory_tools(memory, scope=ALICE)
    searching = asyncio.create_task(search.acall(query="tea"))
    assert await asyncio.to_thread(waiting.wait, 10)
    go.set()
    assert (await searching).content == "[]"
