"""LlamaIndex's agents remember through `MemkitMemory`; only the model's words are scripted."""

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.workflow import Context, JsonSerializer

from llamaindex_memkit import MemkitMemory
from memkit_core import Scope

# Making an agent reads every attribute of it, pydantic's deprecated ones too.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning:inspect")

ALICE = Scope.user("alice")


def call(call_id="c1"):
    """The model's wish to add 2 and 3."""
    return ChatMessage(
        role="assistant",
        blocks=[ToolCallBlock(tool_call_id=call_id, tool_name="add", tool_kwargs={"a": 2, "b": 3})],
    )


@pytest.fixture
def agent(scripted):
    """Makes an agent with one tool, and its model."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def make(*replies, **settings):
        llm = scripted(*replies)
        return FunctionAgent(name="adder", description="adds", tools=[add], llm=llm, **settings), llm

    return make


def roles(messages):
    return [message.role.value for message in messages]


@pytest.mark.parametrize("streaming", [True, False])
async def test_tool_turn(agent, chat, check_valid, streaming):
    """A turn with a tool call is stored whole and in order, and the next turn sends it validly."""
    worker, llm = agent(call(), "It is 5.", "As I said, 5.", streaming=streaming)
    adapter = chat()
    answer = await worker.run("what is 2 + 3?", memory=adapter)
    assert str(answer) == "It is 5."
    assert roles(adapter.get_all()) == ["user", "assistant", "tool", "assistant"]
    assert adapter.get_all()[2].content == "5"
    check_valid(adapter.get_all())
    await worker.run("sure?", memory=adapter)
    check_valid(llm.prompts[-1])
    assert roles(llm.prompts[-1]) == ["user", "assistant", "tool", "assistant", "user"]
    assert roles(adapter.get_all()) == [*roles(llm.prompts[-1]), "assistant"]


async def test_call_ids_used_again(agent, chat, check_valid):
    """A model that uses one call id in every turn gets each result with its own call."""
    worker, llm = agent(call(), "5", call(), "5 again")
    adapter = chat()
    await worker.run("2 + 3?", memory=adapter)
    await worker.run("2 + 3 again?", memory=adapter)
    check_valid(adapter.get_all())
    assert [m.content for m in adapter.get_all() if m.role is MessageRole.TOOL] == ["5", "5"]
    check_valid(llm.prompts[-1])


async def test_agent_recalls(agent, chat, memory):
    """The agent's first call already has what is recalled, and its later calls have the same."""
    memory.add("Alice's lucky number is 23.", scope=ALICE)
    worker, llm = agent(call(), "28", system_prompt="You add.")
    adapter = chat()
    await worker.run("add 5 to my lucky number", memory=adapter)
    for prompt in llm.prompts:
        assert prompt[0].content == "You add."
        assert "lucky number is 23" in prompt[1].content
        assert prompt[1:3] == llm.prompts[0][1:3]
    assert all("23" not in (message.content or "") for message in adapter.get_all())


async def test_state_is_not_stored(agent, chat):
    """An agent that writes its state into the prompt does not change what the user said."""
    worker, llm = agent("ok")
    workflow = AgentWorkflow(agents=[worker], root_agent="adder", initial_state={"n": 1})
    adapter = chat()
    await workflow.run(user_msg="hello", memory=adapter)
    assert "Current state" in llm.prompts[0][-1].content
    assert adapter.get_all()[0] == ChatMessage(role="user", content="hello")


async def test_given_history(agent, chat):
    """A history that is given with a turn becomes the session's, and is not doubled by the next."""
    worker, _ = agent("b", "c")
    adapter = chat()
    history = [ChatMessage(role="user", content="1"), ChatMessage(role="assistant", content="a")]
    await worker.run("2", chat_history=history, memory=adapter)
    await worker.run("3", chat_history=adapter.get_all(), memory=adapter)
    assert [m.content for m in adapter.get_all()] == ["1", "a", "2", "b", "3", "c"]


async def test_context_is_saved_and_restored(agent, chat):
    """A workflow context that holds the memory is JSON, and goes on with it after it was restored."""
    worker, _ = agent("Noted.", "Pip.")
    context = Context(worker)
    adapter = chat()
    await worker.run("my owl is called Pip", memory=adapter, ctx=context)
    saved = context.to_dict(serializer=JsonSerializer())
    again = Context.from_dict(worker, saved, serializer=JsonSerializer())
    held = await again.store.get("memory")
    assert isinstance(held, MemkitMemory)
    await worker.run("what is it called?", ctx=again)
    assert [m.content for m in adapter.get_all()] == [
        "my owl is called Pip", "Noted.", "what is it called?", "Pip.",
    ]  # fmt: skip
