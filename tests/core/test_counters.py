"""`memory.counters`: what was done through a memory, in numbers."""

import copy
import dataclasses
import inspect
import json
import pickle
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from llama_index.core.llms import CompletionResponse

from memkit_core import (
    AsyncMemory,
    BackendError,
    ChatExtractor,
    ChatJudge,
    ChatSummarizer,
    Config,
    Counters,
    Documents,
    InvalidInputError,
    Items,
    MemkitError,
    Memory,
    Message,
    Profile,
    Role,
    Schedule,
    Scope,
    ScopeError,
)
from memkit_core.chat_models import resolve_chat_model
from memkit_core.conversation.runs import Runs
from memkit_core.conversation.sessions import Sessions
from memkit_core.conversation.summary import Summaries
from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.conversation.working import WorkingMemory
from memkit_core.formation import Formation
from memkit_core.observing import EmbeddingCalls, Latency, ModelCalls, Tally, verbs
from memkit_core.observing.counters import WINDOW, Counting
from memkit_core.rerankers import ListwiseReranker
from memkit_core.transfer import Transfer
from memkit_core.upkeep import Upkeep

ALICE = Scope.user("alice")
SESSION = Scope.session("s", user="alice")


def said(text="I moved to Denver and I am vegetarian.", role=Role.USER):
    return Message(role=role, text=text)


class Reporting:
    """A LangChain chat model that reports so many tokens for each answer."""

    def __init__(self, answer, read=100, written=7):
        usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        self._answer = AIMessage(answer, usage_metadata=usage)

    def invoke(self, prompt):
        return self._answer


def fails(*_):
    raise RuntimeError("out of order")


@pytest.fixture
def memory():
    with Memory.open(":memory:") as opened:
        yield opened


SEEN = {
    Memory: verbs.OF_MEMORY,
    Sessions: verbs.OF_SESSIONS,
    Summaries: verbs.OF_SUMMARIES,
    WorkingMemory: verbs.OF_WORKING,
    Runs: verbs.OF_RUNS,
    Formation: verbs.OF_FORMATION,
    Documents: verbs.OF_DOCUMENTS,
    Items: verbs.OF_ITEMS,
    Transfer: verbs.OF_TRANSFER,
    Upkeep: verbs.OF_UPKEEP,
}
UNSEEN = {
    *(
        "Memory.close",
        "Memory.documents",
        "Memory.items",
        "WorkingMemory.using",
        "WorkingMemory.tools",
        "Sessions.checked",
    ),
    *("Memory.promote_latest", "Memory.turn_memories", "Memory.export_jsonl", "Memory.import_jsonl"),
    *("Upkeep.start", "Upkeep.stop"),
}
"""What does no work of its own: it gives something, starts a thread, or calls a verb that is seen."""


@pytest.mark.parametrize("part", SEEN, ids=lambda part: part.__name__)
def test_every_verb_is_counted(part):
    """A new verb has a line in `memkit_core.observing.verbs`, in the table of its part, or stands in `UNSEEN`."""
    for name, member in vars(part).items():
        if (
            inspect.isfunction(member)
            and not name.startswith("_")
            and f"{part.__name__}.{name}" not in UNSEEN
        ):
            assert name in SEEN[part], (
                f"{part.__name__}.{name} is new: say in observing/verbs.py what it counts as"
            )


def test_nothing_was_done_yet(memory):
    """A new memory has counted nothing, and knows no latency."""
    assert memory.counters == Counters(
        writes={},
        recalls=Tally(),
        recall_ms=Latency(),
        degraded={},
        chat=ModelCalls(),
        embedding=EmbeddingCalls(),
    )


def test_writes_are_counted_by_verb_and_end(memory):
    """Each write counts for its verb, as succeeded or failed; bad arguments are a failure too."""
    memory.add("The tent is green.", scope=ALICE)
    memory.add_many(["The canoe is blue.", "The stove is red."], scope=ALICE)
    memory.sessions.append([said()], scope=SESSION)
    for _ in range(3):
        with pytest.raises(InvalidInputError):
            memory.add(7, scope=ALICE)
    with pytest.raises(TypeError):
        memory.add("no scope at all")
    with pytest.raises(ScopeError):
        memory.sessions.append([said()], scope=ALICE)
    writes = memory.counters.writes
    assert writes == {
        "add": Tally(succeeded=1, failed=4),
        "add_many": Tally(succeeded=1),
        "sessions.append": Tally(succeeded=1, failed=1),
    }
    assert writes["add"].tried == 5


def test_a_store_that_fails_is_a_failed_write(tmp_path):
    """A write for which the store has no room in time counts as failed, and what it raised comes out as it is."""
    path = tmp_path / "m.db"
    with Memory.open(path, config=Config(busy_timeout=0.05)) as memory:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BackendError):
            memory.add("The tent is green.", scope=ALICE)
        other.rollback()
        other.close()
        memory.add("The tent is green.", scope=ALICE)
        assert memory.counters.writes == {"add": Tally(succeeded=1, failed=1)}


def test_a_verb_that_calls_another_counts_as_that_one(memory):
    """One write is counted once, under the verb that writes."""
    memory.add("The tent is green.", scope=SESSION, tags=["t"])
    memory.promote_latest(scope=SESSION, tags=["t"])
    memory.profiles.add(Profile(key="home", document={"city": "Denver"}), scope=ALICE)
    assert memory.counters.writes == {name: Tally(succeeded=1) for name in ("add", "promote", "add_many")}


def test_what_the_queue_writes_is_counted(memory):
    """A background write of messages counts when it is stored."""
    memory.sessions.queue.append([said()], scope=SESSION)
    assert memory.flush()
    assert memory.counters.writes == {"sessions.queue": Tally(succeeded=1)}


def test_recalls_and_their_latency(memory):
    """Recalls are counted, those of a turn among them, with percentiles in milliseconds; failed ones apart."""
    memory.add("The tent is green.", scope=ALICE)
    for _ in range(5):
        memory.recall("tent", scope=ALICE)
    memory.turn_memories(SESSION, "tent")
    with pytest.raises(InvalidInputError):
        memory.recall("tent", scope=ALICE, top_k=0)
    counters = memory.counters
    assert (counters.recalls, counters.degraded) == (Tally(succeeded=6, failed=1), {})
    latency = counters.recall_ms
    assert latency.recalls == 6
    assert 0 < latency.p50 <= latency.p95 <= latency.p99
    memory.turn_context(SESSION, "tent")
    assert memory.counters.recalls.succeeded > 6
    memory.documents(scope=ALICE).search("tent")
    assert memory.counters.recalls.failed == 1


def test_the_window_and_the_percentiles():
    """Percentiles are NumPy's, over the last 1,024 recalls, whatever came before."""
    counting = Counting()
    rng = np.random.default_rng(7)
    seconds = rng.exponential(0.003, 3 * WINDOW)
    for one in seconds:
        counting.recalled(one, ())
    latency = counting.read().recall_ms
    expected = np.percentile(seconds[-WINDOW:], (50, 95, 99)) * 1000
    assert latency.recalls == WINDOW == 1024
    assert (latency.p50, latency.p95, latency.p99) == pytest.approx(expected)
    assert counting.read().recalls.succeeded == 3 * WINDOW


def test_degraded_recalls_are_counted_by_what_was_missing(open_memory):
    """A recall that went without something counts for that, and as a recall."""
    memory, embedder = open_memory()
    memory.add("The tent is green.", scope=ALICE)
    memory.flush()
    embedder.embed_query = fails
    memory.recall("tent", scope=ALICE)
    memory.add("The canoe is blue.", scope=ALICE)
    memory.recall("green tent", scope=ALICE, reranker=fails)
    counters = memory.counters
    assert counters.recalls == Tally(succeeded=2)
    assert counters.degraded["dense"] == 2
    assert counters.recall_ms.recalls == 2
    assert counters.embedding.failed >= 2


def test_embeddings_are_counted_as_they_reach_the_model(open_memory):
    """Calls and texts are those that the embedder got, from whichever thread; its cache is not asked."""
    memory, embedder = open_memory()
    memory.add("The tent is green.", scope=ALICE)
    memory.add("The canoe is blue.", scope=ALICE, background=True)
    memory.flush()
    for _ in range(3):
        memory.recall("tent", scope=ALICE)
    memory.documents(scope=ALICE).put(["The stove is red."])
    memory.flush()
    counted = memory.counters.embedding
    assert counted.texts == embedder.texts >= 4
    assert (counted.failed, counted.succeeded <= counted.texts) == (0, True)


class Counted:
    """An embedder that keeps count itself."""

    def __init__(self, model):
        self.model, self.revision, self.texts = model, "", 0

    def embed_documents(self, texts):
        self.texts += len(texts)
        return np.array([[len(text), 1] for text in texts], np.float32)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def test_what_the_thread_of_upkeep_embeds_is_counted():
    """The periodic work counts for the memory whose thread does it."""
    embedder = Counted("periodic")
    config = Config(upkeep=Schedule(outbox_seconds=0.01))
    with Memory.open(":memory:", embedder=embedder, config=config) as memory:
        memory._worker.stop(5)
        memory.add("The tent is green.", scope=ALICE, background=True)
        while memory.capabilities.outbox.length:
            memory.upkeep.start()
        assert memory.counters.embedding.texts == embedder.texts >= 1


def test_a_change_of_the_model_in_the_background_is_counted(tmp_path):
    """What is embedded anew counts for the memory that was opened with the new model."""
    path = tmp_path / "m.db"
    with Memory.open(path, embedder=Counted("old"), config=Config(disk_reserve=1)) as memory:
        memory.add("The tent is green.", scope=ALICE)
    embedder = Counted("new")
    with Memory.open(path, embedder=embedder, config=Config(disk_reserve=1, reembed="background")) as memory:
        while memory.capabilities.embedding_model != "new":
            memory.flush()
        assert memory.counters.embedding.texts == embedder.texts >= 1


def test_an_embedder_that_fails_fails_no_write(open_memory):
    """The write succeeded, and the call of the embedder is the one that failed."""
    memory, embedder = open_memory()
    embedder.embed_documents = fails
    memory.add("The tent is green.", scope=ALICE)
    counters = memory.counters
    assert counters.writes == {"add": Tally(succeeded=1)}
    assert (counters.embedding.succeeded, counters.embedding.failed >= 1) == (0, True)


def test_tokens_that_a_model_reports(memory):
    """Tokens are those that LangChain's and LlamaIndex's models report of a call; nothing is estimated then."""

    class Completing:
        def complete(self, prompt):
            used = {"prompt_tokens": 30, "completion_tokens": 2, "total_tokens": 32}
            return CompletionResponse(text="A trip", additional_kwargs=used)

    memory.sessions.append([said()], scope=SESSION)
    memory.sessions.generate_title(scope=SESSION, model=Reporting("A trip"))
    memory.sessions.generate_title(scope=SESSION, model=Completing())
    assert memory.counters.chat == ModelCalls(succeeded=2, input_tokens=130, output_tokens=9)


def test_tokens_that_no_model_reports_are_estimates(memory):
    """Where a model says nothing of tokens they are counted from prompt and answer, and kept apart."""
    asked = []

    def model(prompt):
        asked.append(prompt)
        return "A trip"

    memory.sessions.append([said()], scope=SESSION)
    memory.sessions.generate_title(scope=SESSION, model=model)
    plain = GenericFakeChatModel(messages=iter([AIMessage("A trip")]))
    memory.sessions.generate_title(scope=SESSION, model=plain)
    assert memory.counters.chat == ModelCalls(
        succeeded=2,
        estimated_calls=2,
        estimated_input_tokens=2 * approximate_tokens(asked[0]),
        estimated_output_tokens=2 * approximate_tokens("A trip"),
    )


def test_every_use_of_a_chat_model_is_counted(memory):
    """Extractors, judges, summaries, titles and listwise rerankers count alike."""
    memory.sessions.append([said(), said("Noted.", Role.ASSISTANT)] * 4, scope=SESSION)
    memory.add_many(["Alice lives in Denver.", "Alice lives in Denver, Colorado."], scope=ALICE)
    memory.flush()
    uses = {
        "extractor": lambda: memory.formation.run(
            scope=SESSION, extractor=ChatExtractor(Reporting('{"facts": ["Alice lives in Denver."]}'))
        ),
        "judge": lambda: memory.upkeep.consolidate(
            scope=ALICE, judge=ChatJudge(Reporting('{"verdict": "same", "reason": "both say it"}'))
        ),
        "summary": lambda: memory.summaries.update(
            scope=SESSION, threshold=1, keep=1, summarizer=ChatSummarizer(Reporting("They talked."))
        ),
        "title": lambda: memory.sessions.generate_title(scope=SESSION, model=Reporting("A trip")),
        "reranker": lambda: memory.recall(
            "Denver", scope=ALICE, reranker=ListwiseReranker(Reporting("[2, 1]"))
        ),
    }
    for name, use in uses.items():
        before = memory.counters.chat
        use()
        after = memory.counters.chat
        calls = after.succeeded + after.failed - before.succeeded - before.failed
        assert calls > 0, name
        assert after.input_tokens - before.input_tokens == 100 * calls, name
        assert after.output_tokens - before.output_tokens == 7 * calls, name


def test_a_chat_model_that_fails(memory):
    """A call that raises, or answers with nothing of use, is a failed one; the tokens of the second were used."""
    memory.sessions.append([said()], scope=SESSION)
    for model in (fails, Reporting("  ")):
        with pytest.raises(MemkitError):
            memory.sessions.generate_title(scope=SESSION, model=model)
    counters = memory.counters
    assert counters.chat == ModelCalls(failed=2, input_tokens=100, output_tokens=7)
    assert counters.writes["sessions.generate_title"] == Tally(failed=2)


def test_a_model_that_is_called_elsewhere_counts_nowhere(memory):
    """Only what a memory asks counts."""
    assert resolve_chat_model(Reporting("Hi"))("Hello?") == "Hi"
    assert memory.counters.chat == ModelCalls()


def test_threads_count_exactly(memory):
    """However many threads write and recall at once, no call is lost."""
    ready = threading.Barrier(8)

    def work(number):
        ready.wait()
        for step in range(25):
            memory.add(f"Fact {step} of thread {number}.", scope=ALICE)
            memory.recall("fact", scope=ALICE)
            with pytest.raises(InvalidInputError):
                memory.sessions.append(["no message"], scope=SESSION)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    counters = memory.counters
    assert counters.writes == {"add": Tally(succeeded=200), "sessions.append": Tally(failed=200)}
    assert counters.recalls == Tally(succeeded=200)


def test_a_forked_child_starts_at_zero(tmp_path, in_child):
    """What the parent did is the parent's; both together are all that was done."""
    with Memory.open(tmp_path / "m.db") as memory:
        memory.add("The tent is green.", scope=ALICE)

        def child():
            before = memory.counters
            memory.add("The canoe is blue.", scope=ALICE)
            return dataclasses.asdict(before)["writes"], dataclasses.asdict(memory.counters)["writes"]

        before, after = in_child(child, seconds=20.0)
        assert (before, after) == ({}, {"add": {"succeeded": 1, "failed": 0}})
        assert memory.counters.writes == {"add": Tally(succeeded=1)}


def test_memories_of_one_file_count_apart(tmp_path):
    """Each counts what was done through it; a copy is the same memory, one that is unpickled a new one."""
    with Memory.open(tmp_path / "m.db") as one, Memory.open(tmp_path / "m.db") as other:
        one.add("The tent is green.", scope=ALICE)
        assert other.counters.writes == {}
        assert copy.deepcopy(one).counters.writes == {"add": Tally(succeeded=1)}
        with pickle.loads(pickle.dumps(one)) as again:
            assert again.counters.writes == {}


def test_counters_are_plain_values(memory):
    """What was read does not change, can be pickled and written as JSON, and is told after closing too."""
    memory.add("The tent is green.", scope=ALICE)
    before = memory.counters
    memory.add("The canoe is blue.", scope=ALICE)
    assert before.writes["add"].succeeded == 1
    assert pickle.loads(pickle.dumps(before)) == before
    assert json.loads(json.dumps(dataclasses.asdict(before)))["writes"]["add"]["succeeded"] == 1
    memory.close()
    assert memory.counters.writes["add"] == Tally(succeeded=2)


async def test_what_is_awaited_is_counted():
    """`AsyncMemory.counters` are those of its memory."""
    async with await AsyncMemory.open(":memory:", config=Config()) as memory:
        await memory.add("The tent is green.", scope=ALICE)
        await memory.recall("tent", scope=ALICE)
        assert memory.counters.writes == {"add": Tally(succeeded=1)}
        assert memory.counters == memory.memory.counters
