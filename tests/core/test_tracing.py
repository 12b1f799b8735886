"""`Config(tracing=Tracing())`: OpenTelemetry spans of what a memory does, without content."""

import itertools
import re
from functools import partial
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from memkit_core import (
    AsyncMemory,
    ChatExtractor,
    ChatJudge,
    Config,
    ConfigError,
    InvalidInputError,
    MemkitError,
    Memory,
    Message,
    NewDocument,
    NewItem,
    RecallLog,
    RecordNotFoundError,
    Role,
    Scope,
    Tracing,
    value_key,
)
from memkit_core.chat_models import resolve_chat_model
from memkit_core.observing import verbs
from memkit_core.observing.providers import provider_of
from memkit_core.ports import Chunk
from memkit_core.rerankers import ListwiseReranker

ALICE = Scope.user("alice")
SESSION = Scope.session("s", user="alice")
TRACED = Config(tracing=Tracing(), disk_reserve=1)
WORD = "zyzzyva"
"""Stands in every text, id, tag, name and metadata value of the session that is watched for content."""


TABLES = [
    # The part of each, as it leads the names of its verbs.
    ("" if part == "memory" else f"{part}.", table)
    for name, table in vars(verbs).items()
    if name.startswith("OF_")
    for part in [name.removeprefix("OF_").lower()]
]
DOCS = Path(__file__).parents[2] / "docs" / "observability.md"


@pytest.fixture(scope="module")
def exporter():
    """What the spans of this process go to; a provider can be set once only."""
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    return kept


@pytest.fixture
def spans(exporter):
    """Gives the spans that ended since the test began, or since it was asked before."""

    def ended():
        found = exporter.get_finished_spans()
        exporter.clear()
        return found

    exporter.clear()
    return ended


@pytest.fixture
def memory(spans):
    with Memory.open(":memory:", config=TRACED) as opened:
        yield opened


def said(text, **fields):
    return Message(role=Role.USER, text=text, **fields)


def fails(*_):
    raise RuntimeError(f"{WORD} is out of order")


def one(spans, name):
    (found,) = [span for span in spans if span.name == name]
    return found


def test_writes_and_recalls_have_the_names_of_the_conventions(memory, spans):
    """Spans are named by the GenAI conventions, in this process, with how many records, top_k and scope kind."""
    memory.add_many(["The tent is green.", "The canoe is blue."], scope=ALICE)
    memory.recall("tent", scope=[SESSION, ALICE], top_k=1)
    memory.delete(scope=ALICE)
    found = {span.name: span for span in spans() if span.name.endswith("_memory")}
    assert {name: dict(span.attributes) for name, span in found.items()} == {
        "upsert_memory": {
            "gen_ai.operation.name": "upsert_memory",
            "gen_ai.memory.record.count": 2,
            "memkit.verb": "add_many",
            "memkit.scope.kinds": ("user",),
        },
        "search_memory": {
            "gen_ai.operation.name": "search_memory",
            "gen_ai.memory.record.count": 1,
            "memkit.verb": "recall",
            "memkit.scope.kinds": ("session", "user"),
            "memkit.top_k": 1,
            "memkit.missing": (),
            "memkit.degraded": False,
        },
        "delete_memory": {
            "gen_ai.operation.name": "delete_memory",
            "gen_ai.memory.record.count": 2,
            "memkit.verb": "delete",
            "memkit.scope.kinds": ("user",),
        },
    }
    assert {(span.kind, span.status.status_code, span.parent) for span in found.values()} == {
        (SpanKind.INTERNAL, StatusCode.UNSET, None)
    }


def test_what_the_conventions_do_not_know(memory, spans):
    """Other verbs are `memkit.<part>.<verb>` and claim no operation; a search of documents is a retrieval."""
    memory.sessions.append([said("My canoe is blue.")], scope=SESSION)
    documents = memory.documents(scope=ALICE)
    documents.put(["The tent is green."])
    documents.search("tent")
    found = spans()
    append = one(found, "memkit.sessions.append")
    assert dict(append.attributes) == {
        "memkit.verb": "sessions.append",
        "memkit.scope.kinds": ("session",),
        "memkit.count": 1,
    }
    searched = one(found, "retrieval").attributes
    assert (searched["gen_ai.request.top_k"], searched["memkit.scope.kinds"]) == (4, ("user",))


def test_models_are_asked_within_the_verb(memory, spans):
    """Calls of embedders and chat models are child spans, also from the thread of a reranker."""
    with trace.get_tracer("app").start_as_current_span("request") as request:
        memory.add_many(["The tent is green.", "A tent is a home."], scope=ALICE)
        memory.recall("tent", scope=ALICE, reranker=ListwiseReranker(lambda _: "[2, 1]"))
    found = spans()
    added, recalled = one(found, "upsert_memory"), one(found, "search_memory")
    assert {added.parent.span_id, recalled.parent.span_id} == {request.get_span_context().span_id}
    asked = [span for span in found if span.name.startswith("embeddings wordllama/")]
    assert [span.parent.span_id for span in asked] == [added.context.span_id, recalled.context.span_id]
    assert {(span.kind, span.attributes["gen_ai.provider.name"]) for span in asked} == {
        (SpanKind.INTERNAL, "wordllama")
    }
    assert asked[0].attributes["memkit.count"] == 2
    chat = one(found, "chat <lambda>")
    assert (chat.parent.span_id, chat.kind) == (recalled.context.span_id, SpanKind.CLIENT)
    assert dict(chat.attributes) == {"gen_ai.operation.name": "chat", "gen_ai.request.model": "<lambda>"}


def test_what_is_embedded_for_a_flush_is_within_it(memory, spans):
    """A flush with a time limit embeds in a thread of its own, and in its own span."""
    memory._worker.stop(5)
    memory.add("The tent is green.", scope=ALICE, background=True)
    assert memory.flush(20)
    found = spans()
    (asked,) = (span for span in found if span.name.startswith("embeddings "))
    assert asked.parent.span_id == one(found, "memkit.flush").context.span_id


def test_tokens_are_told_only_where_the_model_reports_them(memory, spans):
    """`gen_ai.usage.*` holds what the model said, and no estimate."""

    class Answer:
        content = "A trip"
        usage_metadata = {"input_tokens": 30, "output_tokens": 2}  # noqa: RUF012 - as LangChain's message has it

    class Model:
        model_name = "scripted-1"

        def invoke(self, prompt):
            return Answer()

    memory.sessions.append([said("I am off.")], scope=SESSION)
    memory.sessions.generate_title(scope=SESSION, model=Model())
    asked = one(spans(), "chat scripted-1").attributes
    assert (asked["gen_ai.usage.input_tokens"], asked["gen_ai.usage.output_tokens"]) == (30, 2)


def test_a_degraded_recall_says_so(spans):
    """What was missing is named; the call of the model that failed is a span in error."""

    class Embedder:
        model, revision = "broken", ""
        embed_documents = embed_query = fails

    with Memory.open(":memory:", config=TRACED, embedder=Embedder()) as memory:
        memory.add("The tent is green.", scope=ALICE)
        memory.recall("tent", scope=ALICE)
    found = spans()
    recalled = one(found, "search_memory")
    assert recalled.attributes["memkit.missing"] == ("dense",)
    assert recalled.attributes["memkit.degraded"] is True
    assert recalled.status.status_code is StatusCode.UNSET
    asked = [span for span in found if span.name == "embeddings broken"]
    assert {span.status.status_code for span in asked} == {StatusCode.ERROR}
    assert {span.attributes["error.type"] for span in asked} == {"memkit_core.errors.ModelError"}
    assert {span.kind for span in asked} == {SpanKind.CLIENT}


def test_a_write_that_fails_is_an_error_without_its_message(memory, spans):
    """The type of what was raised is told, and nothing of its message, which may quote content."""
    with pytest.raises(RecordNotFoundError, match=WORD):
        memory.update(WORD, scope=ALICE, content="green")
    with pytest.raises(TypeError):
        memory.add("no scope at all")
    for span, error in zip(spans(), ("memkit_core.errors.RecordNotFoundError", "TypeError"), strict=True):
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
        assert (span.attributes["error.type"], span.events) == (error, ())
    assert memory.counters.writes["update"].failed == 1


def test_ids_are_told_only_where_asked_for(spans):
    """With `Tracing(ids=True)` a span names its record and session; without it, neither."""
    session = Scope.session("monday", user="alice")
    for tracing in (Tracing(), Tracing(ids=True)):
        with Memory.open(":memory:", config=Config(tracing=tracing)) as memory:
            record = memory.add("The tent is green.", scope=session, id="r1")
            memory.archive("r1", scope=session)
            with pytest.raises(RecordNotFoundError):
                memory.update("r2", scope=session, content="x")
            memory.delete("r1", scope=session)
            memory.sessions.append([said("Hello.")], scope=session)
            memory.recall("tent", scope=session)
            memory.runs.save("r3", None, scope=session)
        assert record.id == "r1"
        told = [
            (
                span.attributes.get("gen_ai.memory.record.id"),
                span.attributes.get("gen_ai.conversation.id"),
            )
            for span in spans()
            if "memkit.verb" in span.attributes
        ]
        of = "r1", "r1", "r2", "r1", None, None, None
        assert told == ([(record, "monday") for record in of] if tracing.ids else [(None, None)] * 7)


async def test_the_context_reaches_the_worker_threads(spans):
    """What is awaited is part of the span in which it is awaited."""
    async with await AsyncMemory.open(":memory:", config=TRACED) as memory:
        with trace.get_tracer("app").start_as_current_span("request") as request:
            await memory.add("The tent is green.", scope=ALICE)
            await memory.recall("tent", scope=ALICE)
        await memory.recall("tent", scope=ALICE)
    parents = [span.parent and span.parent.span_id for span in spans() if span.name.endswith("_memory")]
    mine = request.get_span_context().span_id
    assert parents == [mine, mine, None]


def test_background_work_belongs_to_no_request(spans):
    """What a thread embeds later is in no span of the request that left it to it."""

    class Embedder:
        model, revision = "slow", ""

        def embed_documents(self, texts):
            return [[1.0, 2.0] for _ in texts]

        def embed_query(self, text):
            return [1.0, 2.0]

    with Memory.open(":memory:", config=TRACED, embedder=Embedder()) as memory:
        with trace.get_tracer("app").start_as_current_span("request"):
            memory.add("The tent is green.", scope=ALICE, background=True)
        while memory.capabilities.outbox.length:
            memory._worker.wake()
    assert {span.parent for span in spans() if span.name == "embeddings slow"} == {None}


def test_nothing_is_traced_unless_asked(spans):
    """Without `Config.tracing` there is no span, whatever tracer provider the application has."""
    with Memory.open(":memory:") as memory:
        memory.add("The tent is green.", scope=ALICE)
        memory.recall("tent", scope=ALICE)
    assert spans() == ()


@pytest.mark.parametrize("wrong", [True, "yes", 1, {}])
def test_only_a_tracing_traces(wrong):
    """Another value than a `Tracing` is refused, and so are ids that are no switch."""
    with pytest.raises(ConfigError, match=r"tracing must be a memkit_core\.Tracing"):
        Config(tracing=wrong)
    if wrong is not True:
        with pytest.raises(ConfigError, match="ids must be True or False"):
            Tracing(ids=wrong)


def test_without_the_extra(run_script):
    """Not asking for spans imports no OpenTelemetry; asking without it names the extra and leaves nothing open."""
    told = run_script("""
        import sys
        from memkit_core import Config, Memory, MissingDependencyError, Scope, Tracing

        with Memory.open("m.db") as memory:
            memory.add("The tent is green.", scope=Scope.user("a"))
            memory.recall("tent", scope=Scope.user("a"))
            memory.counters
        print([name for name in sys.modules if name.split(".")[0] == "opentelemetry"])
        sys.modules["opentelemetry"] = None
        try:
            Memory.open("m.db", config=Config(tracing=Tracing()))
        except MissingDependencyError as error:
            print(error)
        with Memory.open("m.db") as memory:
            print(memory.capabilities.index)
    """)
    assert told.splitlines() == [
        "[]",
        "opentelemetry-api is not installed. Run: pip install 'memkit-llm[otel]'",
        "True",
    ]


def test_a_provider_may_be_set_later(run_script):
    """The application may set up its SDK after it opened the memory."""
    told = run_script("""
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from memkit_core import Config, Memory, Scope, Tracing

        kept, provider = InMemorySpanExporter(), TracerProvider()
        with Memory.open(":memory:", config=Config(tracing=Tracing())) as memory:
            memory.add("The tent is green.", scope=Scope.user("a"))
            provider.add_span_processor(SimpleSpanProcessor(kept))
            trace.set_tracer_provider(provider)
            memory.recall("tent", scope=Scope.user("a"))
        print([span.name for span in kept.get_finished_spans() if "_memory" in span.name])
    """)
    assert told == "['search_memory']"


@pytest.mark.parametrize(
    ("home", "provider"),
    [
        ("langchain_openai.chat_models.base", "openai"),
        ("langchain_mistralai.chat_models", "mistral_ai"),
        ("llama_index.llms.anthropic.base", "anthropic"),
        ("llama_index.embeddings.openai.base", "openai"),
        ("langchain_core.language_models.fake", None),
        ("my_app.models", None),
    ],
)
def test_providers(home, provider):
    """The provider is told by the package a model comes from, by its name in the conventions."""
    assert provider_of(type("Model", (), {"__module__": home})()) == provider


# ------------------------------------------------------------------------------- no content


def drive(memory, tmp_path):
    """Every verb that is observed, once with what it takes, and the word in all that holds text."""
    names = (f"{WORD}-{n}" for n in itertools.count())
    user = Scope.user(f"{WORD} user", workspace=f"{WORD} workspace")
    session = Scope.session(f"{WORD} session", user=user)
    own = {"tags": [f"{WORD}-tag"], "metadata": {WORD: WORD}, "source": WORD, "agent_id": WORD}

    def added(**fields):
        return memory.add(f"{WORD} lives in {next(names)}.", scope=user, id=next(names), **own, **fields).id

    memory.add_many([f"{WORD} likes {next(names)}."], scope=user)
    first = added()
    memory.update(first, scope=user, content=f"{WORD} anew", tags=[WORD])
    memory.undo(first, scope=user)
    memory.archive(first, scope=user)
    memory.restore(first, scope=user)
    memory.supersede(first, f"{WORD} is elsewhere", scope=user)
    memory.confirm(added(pending=True), scope=user)
    memory.reject(added(pending=True), scope=user)
    memory.promote(added(), scope=user, to=Scope.workspace(f"{WORD} workspace"))
    memory.compact([added(), added()], scope=user, summarize=lambda _: f"{WORD} in short")
    answer = memory.recall(f"where is {WORD}?", scope=[session, user], explain=True)
    memory.feedback(answer.recall_id, answer[0].record.id, scope=user)
    memory.get(first, scope=user)
    memory.history(first, scope=user)
    memory.list_records(scope=user, tags=[WORD], filters={f"metadata.{WORD}": WORD})
    drive_sessions(memory, session)
    memory.turn_context(session, f"who is {WORD}?", system=WORD)
    drive_documents(memory.documents(WORD, scope=user))
    drive_items(memory.items(WORD, scope=user))
    drive_upkeep(memory, user, tmp_path)
    memory.delete(first, scope=user)
    memory.delete(scope=user)


def drive_sessions(memory, session):
    sessions, summaries, working, runs = memory.sessions, memory.summaries, memory.working, memory.runs
    sessions.create(scope=session, title=WORD, metadata={WORD: WORD})
    sessions.append(
        [said(f"{WORD} says {n}", id=f"{WORD}-m{n}", agent_id=WORD) for n in range(6)], scope=session
    )
    sessions.queue.append([said(f"{WORD} says more")], scope=session)
    memory.flush()
    sessions.update(scope=session, title=f"{WORD} again")
    sessions.replace([said(f"{WORD} says else")], scope=session, keep=[f"{WORD}-m{n}" for n in range(6)])
    sessions.generate_title(scope=session, model=lambda _: WORD)
    sessions.relevant_window(WORD, scope=session, max_tokens=200)
    sessions.read(scope=session)
    sessions.for_model(scope=session)
    sessions.window(scope=session, max_tokens=200)
    sessions.get(scope=session)
    sessions.list(scope=session.parent)
    summaries.update(scope=session, threshold=1, keep=1, summarizer=lambda *_: WORD)
    summaries.get(scope=session)
    summaries.context(scope=session)
    summaries.clear(scope=session)
    working.update(WORD, scope=session)
    working.undo(scope=session)
    working.get(scope=session)
    working.history(scope=session)
    working.instructions(scope=session)
    working.clear(scope=session)
    runs.save(WORD, {WORD: WORD}, scope=session, status=WORD)
    runs.load(WORD, scope=session)
    runs.list(scope=session, status=WORD)
    runs.delete(WORD, scope=session)
    formation = memory.formation
    formation.set_budget(10_000, scope=session)
    formation.budget(scope=session)
    formation.due(idle_seconds=0)
    formation.run(scope=session, extractor=ChatExtractor(lambda _: f'{{"facts": ["{WORD}"]}}'))
    formation.run_due(extractor=fails, idle_seconds=0)
    formation.set_aside(scope=session)
    sessions.delete([f"{WORD}-m1"], scope=session)
    sessions.clear(scope=session)


def drive_documents(documents):
    documents.put([NewDocument(content=WORD, id=WORD, metadata={WORD: WORD})])
    documents.add_document(
        f"{WORD} at length",
        id=f"{WORD}-long",
        chunker=lambda text: [Chunk(content=text, start=0, end=len(text))],
    )
    documents.search(WORD, filters={f"metadata.{WORD}": WORD})
    documents.get([WORD])
    documents.chunks(f"{WORD}-long")
    documents.vectors([WORD])
    documents.list(filters={f"metadata.{WORD}": WORD})
    documents.delete([WORD])
    documents.clear()


def drive_items(items):
    place = (WORD, f"{WORD} inner")
    items.put([NewItem(namespace=place, key=WORD, value={WORD: WORD}, texts=[WORD])])
    items.get(place, WORD)
    items.search((WORD,), query=WORD, filters={value_key(WORD): WORD})
    items.namespaces((WORD,))
    items.delete(place, WORD)
    items.clear()


def drive_upkeep(memory, user, tmp_path):
    upkeep, transfer = memory.upkeep, memory.transfer
    memory.add_many([f"{WORD} lives in Rome.", f"{WORD} lives in Rome, Italy."], scope=user)
    upkeep.consolidate(scope=user, judge=ChatJudge(lambda _: WORD))
    for verb in ("verify", "repair", "reindex", "sweep", "forget", "doctor", "stats", "recall_log", "jobs"):
        getattr(upkeep, verb)()
    upkeep.indexed(WORD, scope=user)
    upkeep.run_due()
    upkeep.purge()

    class Embedder:
        model, revision = "other", ""

        def embed_documents(self, texts):
            return [[1.0, float(len(text))] for text in texts]

        def embed_query(self, text):
            return [1.0, 2.0]

    upkeep.reembed(Embedder())
    file = tmp_path / f"{WORD}.jsonl"
    transfer.export_jsonl(file, everything=True)
    transfer.import_jsonl(file)
    transfer.backup(tmp_path / f"{WORD}.backup")


def mislead(memory):
    """Calls with the word where it does not belong, each of which fails and quotes it."""
    for call in (
        partial(memory.add, WORD, scope=WORD),
        partial(memory.add, WORD, scope=ALICE, id=WORD, importance=WORD),
        partial(memory.recall, WORD, scope=ALICE, top_k=WORD),
        partial(memory.recall, WORD, scope=[WORD]),
        partial(memory.recall, WORD, scope=ALICE, top_k=10**30),
        partial(memory.recall, WORD, scope=ALICE, filters={WORD: {WORD: WORD}}),
        partial(memory.turn_context, WORD, WORD),
        partial(memory.delete, WORD, scope=WORD),
        partial(memory.sessions.append, [WORD], scope=SESSION),
        partial(memory.documents(scope=ALICE).search, WORD, top_k=WORD),
        partial(memory.compact, [WORD], scope=ALICE, summarize=fails),
        partial(memory.sessions.generate_title, scope=SESSION, model=fails),
    ):
        with pytest.raises(MemkitError):
            call()
    with pytest.raises(TypeError):
        memory.get(WORD, WORD)


def test_no_content_and_no_id_is_ever_in_a_span(tmp_path, spans):
    """Whatever verb is called, and however it ends, no text, id, tag, name or metadata value is in a span."""
    config = Config(tracing=Tracing(), disk_reserve=1, recall_log=RecallLog())
    with Memory.open(tmp_path / f"{WORD}.db", config=config) as memory:
        drive(memory, tmp_path)
        failed_before = {verb for verb, tally in memory.counters.writes.items() if tally.failed}
        mislead(memory)
    found = spans()
    observed = {verb.name for _, table in TABLES for verb in table.values()}
    assert {span.attributes["memkit.verb"] for span in found if "memkit.verb" in span.attributes} == observed
    assert failed_before == set()
    shown = [
        part
        for span in found
        for part in (
            span.name,
            repr(dict(span.attributes)),
            repr([(event.name, dict(event.attributes)) for event in span.events]),
            str(span.status.description),
        )
    ]
    assert [part for part in shown if WORD in part] == []
    assert sum(span.status.status_code is StatusCode.ERROR for span in found) >= 12


def test_the_page_names_every_span_and_attribute(tmp_path, spans):
    """Each verb that is observed stands in `docs/observability.md`, and so does each attribute that memkit sets."""
    page = DOCS.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for lead, table in TABLES:
        for verb in table.values():
            name = verb.operation or f"memkit.{lead}<verb>"
            row = next(row for row in rows if row.startswith(f"| `{name}` "))
            told = verb.name if verb.operation else verb.name.removeprefix(lead)
            assert f"`{told}`" in row, verb.name
    with Memory.open(
        tmp_path / "m.db", config=Config(tracing=Tracing(ids=True), recall_log=RecallLog())
    ) as memory:
        drive(memory, tmp_path)
        mislead(memory)
    attributes = {name for span in spans() for name in span.attributes}
    assert [name for name in attributes if not any(f"`{name}`" in row for row in rows)] == []


def test_the_examples_of_the_page(run_script):
    """The Python of `docs/observability.md` runs as it stands there."""
    for code in re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL):
        told = run_script(code)
        assert ("search_memory" in told) == ("ConsoleSpanExporter" in code)


def test_a_model_outside_of_a_memory_is_not_traced(spans):
    """Only what a memory asks is a span."""
    assert resolve_chat_model(lambda _: "Hi")("Hello?") == "Hi"
    assert spans() == ()


def test_an_answer_that_fails_ends_the_span(memory, spans):
    """After an error the span before is the current one again."""
    with trace.get_tracer("app").start_as_current_span("request") as request:
        with pytest.raises(InvalidInputError):
            memory.recall("tent", scope=ALICE, top_k=0)
        assert trace.get_current_span() is request
