"""`manage_memory` and `search_memory` in LangChain: real agents, and LangChain's own tests for tools."""

import asyncio
import copy
import json
import threading

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from pydantic import PrivateAttr

from langchain_memkit import MemkitMiddleware, memory_tools
from memkit_core import Memory, Scope, ScopeError

ALICE = Scope.user("alice")
TALK = Scope.session("s1", user=ALICE)


@pytest.fixture
def memory():
    with Memory.open(":memory:") as memory:
        yield memory


class Scripted(BaseChatModel):
    """Says what each step makes of the messages so far; keeps the tools that it was given."""

    steps: list = []  # noqa: RUF012 - pydantic copies it
    _tools: list = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        self._tools.extend(tools)
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        step = self.steps.pop(0)
        answer = step(messages) if callable(step) else step
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage(answer) if isinstance(answer, str) else answer)]
        )


def calling(name, **args):
    return AIMessage("", tool_calls=[{"id": "c1", "name": name, "args": args, "type": "tool_call"}])


def newest(messages):
    """What the tool answered last."""
    assert isinstance(messages[-1], ToolMessage)
    return messages[-1].content


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request):
    async def call(agent, text):
        state = {"messages": [HumanMessage(text)]}
        result = agent.invoke(state) if request.param == "invoke" else await agent.ainvoke(state)
        return result["messages"]

    return call


async def test_an_agent_keeps_a_memory(memory, run):
    """An agent creates, finds, corrects and deletes a memory; the next conversation knows what is left."""
    tools = memory_tools(memory, scope=ALICE)
    model = Scripted(
        steps=[
            calling("manage_memory", content="Alice likes tea."),
            calling("search_memory", query="drinks"),
            lambda said: calling(
                "manage_memory",
                action="update",
                id=json.loads(newest(said))[0]["id"],
                content="Alice likes juice.",
            ),
            "Noted.",
            calling("search_memory", query="juice"),
            lambda said: calling("manage_memory", action="delete", id=json.loads(newest(said))[0]["id"]),
            "Forgotten.",
        ]
    )
    agent = create_agent(model, tools)
    said = await run(agent, "I like tea. No, juice.")
    assert said[-1].content == "Noted."
    answers = [one.content for one in said if isinstance(one, ToolMessage)]
    assert answers[0].startswith("created memory ")
    assert answers[2] == answers[0].replace("created", "updated")
    assert [one.content for one in memory.list_records(scope=ALICE)] == ["Alice likes juice."]
    said = await run(agent, "Forget it.")
    assert said[-2].content == answers[0].replace("created", "Deleted")
    assert memory.list_records(scope=ALICE).records == ()


@pytest.mark.parametrize(
    "wrong",
    [
        calling("manage_memory", action="update", id="12", content="x"),
        calling("manage_memory", action="delete", id="nobody's"),
        calling("manage_memory", action="delete"),
        calling("manage_memory", action="upsert", content="x"),
        calling("manage_memory", content=["x"]),
        calling("manage_memory", content="x", action="create", id="1"),
        calling("search_memory"),
        calling("search_memory", query="x", limit="many"),
        calling("search_memory", query="x", limit=-1),
        calling("search_memory", query="x", filter={"user_id": "bob"}),
    ],
    ids=range(10),
)
async def test_a_mistake_does_not_end_the_run(memory, run, wrong):
    """Whatever a model calls a tool with, it is told what is wrong and the run goes on; nothing is written (B56)."""
    memory.add("bob's", scope=Scope.user("bob"), id="nobody's")
    agent = create_agent(Scripted(steps=[wrong, "Sorry."]), memory_tools(memory, scope=ALICE))
    said = await run(agent, "x")
    assert said[-1].content == "Sorry."
    assert said[-2].content.startswith("Not done: ")
    assert memory.list_records(scope=ALICE).records == ()
    assert len(memory.list_records(scope=Scope.user("bob"))) == 1


async def test_recalled_text_is_no_new_memory(memory, run):
    """What a search returns is a tool's answer: nothing makes a memory or a turn of it (B60)."""
    memory.add("Alice's owl is called Pip.", scope=ALICE)
    model = Scripted(steps=[calling("search_memory", query="owl"), "It is Pip."])
    agent = create_agent(
        model, memory_tools(memory, scope=ALICE), middleware=[MemkitMiddleware(memory, scope=TALK)]
    )
    said = await run(agent, "What is my owl called?")
    assert "Pip" in said[-2].content
    memory.sessions.queue.flush()
    hits = memory.recall("owl called Pip", scope=ALICE, include_messages=True)
    assert {hit.record.content for hit in hits} == {
        "Alice's owl is called Pip.", "What is my owl called?", "It is Pip.",
    }  # fmt: skip
    assert len(memory.list_records(scope=ALICE)) == 1


def test_what_the_model_is_shown(memory):
    """The model sees names, descriptions and arguments, and only the actions that it may use."""
    model = Scripted(steps=["Hi."])
    tools = memory_tools(
        memory, scope=ALICE, actions_permitted=["create"], instructions="Only when asked.\n\nArgs: none."
    )
    create_agent(model, tools).invoke({"messages": [HumanMessage("x")]})
    manage, search = [convert_to_openai_tool(one)["function"] for one in model._tools]
    assert manage["name"] == "manage_memory"
    assert manage["description"].endswith("Only when asked.\n\nArgs: none.")
    arguments = manage["parameters"]["properties"]
    # One choice is no list of them to pydantic.
    assert arguments["action"].get("enum", [arguments["action"].get("const")]) == ["create"]
    assert "one statement" in arguments["content"]["description"]
    assert (search["name"], search["parameters"]["required"]) == ("search_memory", ["query"])
    assert search["parameters"]["properties"].keys() == {"query", "limit", "offset", "filter"}


async def test_the_loop_is_not_blocked(memory, monkeypatch):
    """While a tool waits for the store, other tasks run."""
    waiting, go = threading.Event(), threading.Event()
    add = memory.add

    def slow(*args, **kwargs):
        waiting.set()
        assert go.wait(10)
        return add(*args, **kwargs)

    monkeypatch.setattr(memory, "add", slow)
    manage, _ = memory_tools(memory, scope=ALICE)
    adding = asyncio.create_task(manage.ainvoke({"content": "tea"}))
    assert await asyncio.to_thread(waiting.wait, 10)
    go.set()
    assert (await adding).startswith("created memory ")


def test_copies(memory):
    """Copies of the tools work on the same memory (B71)."""
    for copied in (copy.copy, copy.deepcopy, lambda one: one.model_copy(deep=True)):
        manage, search = map(copied, memory_tools(memory, scope=ALICE))
        manage.invoke({"content": "Alice likes tea."})
        assert "tea" in search.invoke({"query": "tea"})
    assert len(memory.list_records(scope=ALICE)) == 1


def test_a_scope_is_needed(memory):
    """The scope is the app's to give, and none is refused."""
    with pytest.raises(ScopeError):
        memory_tools(memory, scope="alice")
    with pytest.raises(TypeError):
        memory_tools(memory)


class OfManage:
    @pytest.fixture(autouse=True)
    def _tools(self, memory):
        self._tool = memory_tools(memory, scope=ALICE)[0]

    @property
    def tool_constructor(self):
        return self._tool

    @property
    def tool_invoke_params_example(self):
        return {"content": "Alice likes tea."}


class OfSearch:
    @pytest.fixture(autouse=True)
    def _tools(self, memory):
        memory.add("Alice likes tea.", scope=ALICE)
        self._tool = memory_tools(memory, scope=ALICE)[1]

    @property
    def tool_constructor(self):
        return self._tool

    @property
    def tool_invoke_params_example(self):
        return {"query": "tea", "limit": 3, "filter": {"type": "fact"}}


class TestManageUnit(OfManage, ToolsUnitTests): ...


class TestManageIntegration(OfManage, ToolsIntegrationTests): ...


class TestSearchUnit(OfSearch, ToolsUnitTests): ...


class TestSearchIntegration(OfSearch, ToolsIntegrationTests): ...
