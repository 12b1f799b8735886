"""Two tenants: no read of one ever shows anything of the other, whatever ids and filters are asked with.

`READS` names every public read and `WRITES` every public verb that changes something; who adds one
adds it there, and `test_every_public_method_is_listed` fails until it is.
"""

import asyncio
import dataclasses
import io
import itertools
from dataclasses import dataclass
from datetime import timedelta
from operator import methodcaller

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents.middleware import ModelRequest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.runtime import Runtime
from llama_index.core.llms import ChatMessage
from llama_index.core.vector_stores.types import VectorStoreQuery

import langchain_memkit
import llamaindex_memkit
from faults.work import word_of
from memkit_core import (
    Config,
    Documents,
    Episode,
    Items,
    Memory,
    Message,
    NewDocument,
    NewItem,
    NewMemory,
    Profile,
    Ranking,
    RecallLog,
    Role,
    Scope,
    Skill,
)
from memkit_core.conversation.queue import PersistQueue
from memkit_core.conversation.runs import Runs
from memkit_core.conversation.sessions import Sessions
from memkit_core.conversation.summary import Summaries
from memkit_core.conversation.working import WorkingMemory
from memkit_core.errors import ConflictError, InvalidPromotionError, MemkitError, RecordNotFoundError
from memkit_core.formation import Formation
from memkit_core.models import MEMORIES, MESSAGES, MemoryRecord, RecordType, Status
from memkit_core.ports import Chunk, Level, Selection
from memkit_core.stores.cursors import ORDERS
from memkit_core.testing.samples import INJECTIONS, NOW
from memkit_core.testing.strategies import filters, ids, metadata
from memkit_core.tools import memory_tools
from memkit_core.transfer import Transfer
from memkit_core.typed import Episodes, Profiles, Skills
from memkit_core.upkeep import Upkeep

WORLDS = {"in memory": 380, "in a file": 130}
"""Pairs of tenants that are tried on each kind of store; with `READS_EACH`, more than two thousand cases."""
READS_EACH = 4, 8
"""Hostile reads of one pair, at least and at most."""
FOUND_BY_ALL = "lives near the river"
NOTES = "notes"
# Built once: that costs more than to draw from them.
FILTERS, METADATA, IDS = filters(max_leaves=3), metadata(), ids()
_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """Somebody's scopes, and the word that stands in all that is theirs and in nothing else."""

    user: Scope
    session: Scope
    thing: Scope
    broad: Scope
    marker: str
    ids: tuple[str, ...]
    message_ids: tuple[str, ...]

    @property
    def scopes(self):
        return self.user, self.session, self.thing, self.broad

    @property
    def secret_id(self):
        """An id that the other tenant does not know."""
        return f"id of {self.marker}"


# What may be mistaken for each other: two users of one name, and names that are parts of names.
USERS = (
    lambda a, b: (Scope.user(a), Scope.user(b)),
    lambda a, b: (Scope.user(a), Scope.user((a + b)[:4096])),
    lambda a, b: (Scope.user(a[:2000]), Scope.user(f"{a[:2000]}/session:{b[:2000]}")),
    lambda a, b: (Scope.user(a), Scope.user(a, workspace=b)),
    lambda a, b: (Scope.user(a, workspace=b), Scope.user(a, org=b)),
    lambda a, b: (Scope.user(a, workspace=b), Scope.user(b, workspace=a)),
    lambda a, b: (Scope.user(f"{a[:99]}:{b[:99]}", org="c"), Scope.user(a[:99], org=f"{b[:99]}:c")),
)
RELATED = (("u1", "u10"), ("a", "a:b"), ("a'", "a"), ("x/y", "x"), ("%", "_"), ("U", "u"), ("é", "e\u0301"))


@st.composite
def pairs(draw):
    """Two tenants with as much in common as two can have."""
    pair = st.sampled_from(RELATED) | st.tuples(IDS, IDS).filter(lambda names: names[0] != names[1])
    a, b = draw(pair)
    users = draw(st.sampled_from(USERS))(a, b)
    shared = tuple(draw(st.lists(IDS, min_size=1, max_size=2, unique=True)))
    sessions = draw(st.sampled_from(((a, a), (a, b), ("s", "s"))))
    things = draw(st.sampled_from(((a, a), (a, b), (b, a))))
    number = next(_numbers)
    return tuple(
        Tenant(
            user=user,
            session=Scope.session(session, user=user),
            thing=Scope.object(thing, within=user),
            broad=Scope.workspace(name),
            marker=word_of(f"tenant {name!r} of case {number}"),
            # The other's ids are known, but for one.
            ids=(*dict.fromkeys((*shared, a, b)),),
            message_ids=(*dict.fromkeys((*shared, "m")),),
        )
        for user, session, thing, name in zip(users, sessions, things, (a, b), strict=True)
    )


PAIRS = pairs()


# ------------------------------------------------------------------------------- what is asked


@dataclass(frozen=True, kw_only=True)
class Case:
    """One tenant asks, knowing everything of the other but what the other has stored."""

    memory: Memory
    me: Tenant
    other: Tenant
    draw: object

    def one(self, *values):
        return self.draw(st.sampled_from(values))

    @property
    def scope(self):
        return self.one(*self.me.scopes)

    @property
    def session(self):
        """The own session, or what the other's is called under the own user."""
        return self.one(self.me.session, Scope.session(self.other.session.id, user=self.me.user))

    @property
    def noted_by(self):
        return self.one(self.session, self.me.user)

    @property
    def query(self):
        return self.one(self.other.marker, f"{self.other.marker} {FOUND_BY_ALL}", FOUND_BY_ALL, *INJECTIONS)

    @property
    def statuses(self):
        return self.one([Status.ACTIVE], list(Status))

    @property
    def types(self):
        return self.one([], ["fact"], list(RecordType))

    @property
    def filters(self):
        me, other = self.me, self.other
        hostile = (
            {"scope": str(other.user)},
            {"user_id": other.user.id},
            {"scope_id": 1},
            {"1=1) OR (1": 1},
            {"' OR '1'='1": True},
            {"metadata.scope": str(other.user)},
            {"metadata.user_id": me.user.id},
            {"metadata.secret": other.marker},
            {"metadata.$": {"exists": False}},
            {'metadata."\') OR 1=1 --"': {"ne": 1}},
            {"metadata.$.secret": {"ne": me.marker}},
            {"or": [{"metadata.secret": other.marker}, {"type": "fact"}]},
            {"not": {"metadata.secret": me.marker}},
            {"tags": {"contains": other.marker}},
            {"source": {"ne": me.marker}},
            {"agent_id": other.marker},
        )
        return self.draw(st.none() | st.sampled_from(hostile) | FILTERS)

    def documents(self):
        """A collection whose name the other uses too."""
        return self.memory.documents(self.one(NOTES, *self.other.ids), scope=self.scope)

    def items(self):
        """As above."""
        return self.memory.items(self.one(NOTES, *self.other.ids), scope=self.scope)

    @property
    def namespace(self):
        return self.one((), (NOTES,), (NOTES, self.other.ids[0]))

    def of_langchain(self):
        session = self.session
        return langchain_memkit.MemkitChatMessageHistory(
            self.memory, session_id=session.id, user=session.parent
        )

    def of_agent(self):
        return langchain_memkit.MemkitMiddleware(
            self.memory,
            scope=self.session,
            max_tokens=self.one(None, 200),
            working=self.one(None, self.memory.working),
        )

    def model_call(self):
        said = [HumanMessage(self.me.marker, id=self.other.message_ids[0])]
        return ModelRequest(
            model=FakeListChatModel(responses=["x"]), messages=said, state={}, runtime=Runtime()
        )

    def of_block(self):
        return llamaindex_memkit.MemkitMemoryBlock(memory=self.memory, user=self.session.parent)

    def of_chats(self):
        return llamaindex_memkit.MemkitChatStore(memory=self.memory, user_id=self.session.parent)

    def of_llamaindex(self):
        session = self.session
        return llamaindex_memkit.MemkitMemory.from_defaults(
            memory=self.memory, session_id=session.id, user_id=session.parent
        )


def get(case):
    wanted = case.one(*case.other.ids)
    return [
        case.memory.get(wanted, scope=scope, space=case.one(MEMORIES, MESSAGES)) for scope in case.me.scopes
    ]


def list_records(case):
    order = case.one(*ORDERS)
    scope = case.one(*case.other.scopes)
    of_the_other = case.memory.list_records(scope=scope, limit=1, order=order).cursor
    asked = {
        "scope": case.scope,
        "tags": case.one([], [case.other.marker], [*INJECTIONS[:3]]),
        "since": case.one(None, NOW - timedelta(days=1)),
        "until": case.one(None, NOW + timedelta(days=1)),
        "types": case.types,
        "status": case.statuses,
        "filters": case.filters,
        "order": order,
        "limit": case.one(1, 2, 100),
        "space": case.one(MEMORIES, MESSAGES),
        "as_of": case.one(None, NOW),
    }
    pages = [case.memory.list_records(**asked, cursor=case.one(None, of_the_other))]
    while pages[-1].cursor is not None:
        pages.append(case.memory.list_records(**asked, cursor=pages[-1].cursor))
    return [page.records for page in pages]


def recall(case):
    return case.memory.recall(
        case.query,
        scope=case.one(case.scope, [*case.me.scopes]),
        top_k=case.one(1, 50),
        filters=case.filters,
        types=case.types,
        status=case.statuses,
        include_messages=case.one(True, False),
        exclude_messages=case.one([], case.memory.sessions.read(scope=case.other.session)),
        ranking=case.one(None, Ranking(keyword=0.0), Ranking(dense=0.0)),
        now=case.one(None, NOW - timedelta(days=1)),
        as_of=case.one(None, NOW, NOW + timedelta(days=1)),
    )


def search_documents(case):
    return case.documents().search(
        case.query,
        top_k=50,
        filters=case.filters,
        mode=case.one("dense", "keyword", "hybrid"),
        level=case.one(None, "small", "large"),
        parents=case.one(True, False),
    )


def search_items(case):
    return [
        *case.items().search(
            case.namespace,
            query=case.one("", case.query),
            filters=case.filters,
            matching=case.one(None, lambda value: True),
            limit=50,
            mode=case.one("dense", "keyword", "hybrid"),
        )
    ]


def search_langgraph_store(case):
    store = langchain_memkit.MemkitStore(case.memory, scope=case.scope, name=NOTES)
    filters = case.one(None, {"secret": case.other.marker}, {"secret": {"$ne": case.me.marker}})
    found = store.search(case.namespace, query=case.query, filter=filters, limit=50)
    return found, store.list_namespaces(), store.get((NOTES,), case.one(*case.other.ids))


def in_one_chunk(text):
    """A small chunk in a large one: what several tenants then have under the same ids."""
    whole = Chunk(content=text, start=0, end=len(text), context=text, level=Level.LARGE)
    return [whole, dataclasses.replace(whole, level=Level.SMALL, parent=0)]


def search_langchain_store(case):
    store = langchain_memkit.MemkitVectorStore(memory=case.memory, scope=case.scope, name=NOTES)
    own = [store.get_by_ids([*case.other.ids]), store.similarity_search(case.query, k=50)]
    return [*own, store.similarity_search_with_score(case.query, k=50)]


def search_llamaindex_store(case):
    store = llamaindex_memkit.MemkitVectorStore(
        memory=case.memory, scope=case.scope, name=NOTES, embedding_model=None
    )
    asked = VectorStoreQuery(query_str=case.query, similarity_top_k=50)
    return [store.query(asked), store.get_nodes([*case.other.ids])]


def retrieve_langchain(case):
    retriever = langchain_memkit.MemkitRetriever(
        memory=case.memory, scope=case.one(case.scope, [*case.me.scopes]), filters=case.filters, k=50
    )
    return retriever.invoke(case.query)


def retrieve_llamaindex(case):
    retriever = llamaindex_memkit.MemkitRetriever(
        memory=case.memory, scope=case.one(case.scope, [*case.me.scopes]), filters=case.filters, top_k=50
    )
    return [(found.score, found.node.to_dict()) for found in retriever.retrieve(case.query)]


def prompt_of(request):
    return [request.system_message, *request.messages]


def noted(case):
    return case.memory.working.using(per=case.one("session", "user"), template=case.one(None, "# Note"))


def searched(room):
    """A search in one of the rooms of typed memories."""
    return lambda case: getattr(case.memory, room).search(
        case.query, scope=case.one(case.scope, [*case.me.scopes]), filters=case.filters, top_k=50
    )


def got(room):
    return lambda case: getattr(case.memory, room).get(case.one("k", *case.other.ids), scope=case.scope)


def export(case):
    """All of some own scopes, or what changed of late, deletes included."""
    file, store = io.StringIO(), case.memory._store
    with store.portable().snapshot(Selection(scopes=(), now=NOW)) as snapshot:
        of_late = f"{store.store_id}:{max(snapshot.change - 300, 0)}"
    case.memory.transfer.export_jsonl(
        file,
        scope=case.one(case.scope, [*case.me.scopes]),
        types=case.types,
        since=case.one(None, NOW - timedelta(days=1)),
        spaces=case.one([], [MEMORIES, f"documents:{NOTES}"], [MESSAGES]),
        watermark=case.one(None, of_late),
    )
    return file.getvalue()


def export_all_of_a_scope(case):
    file = io.StringIO()
    case.memory.export_jsonl(file, scope=case.scope)
    return file.getvalue()


def import_again(case):
    """What was exported comes back, as it is or under another own scope."""
    scopes = case.one(None, {case.me.user: case.me.broad}, lambda scope: scope)
    return case.memory.import_jsonl(io.StringIO(export_all_of_a_scope(case)), scopes=scopes, on_error="skip")


READS = {
    **{f"{room.capitalize()}.search": searched(room) for room in ("profiles", "episodes", "skills")},
    **{f"{room.capitalize()}.get": got(room) for room in ("profiles", "episodes", "skills")},
    "Memory.get": get,
    "Memory.export_jsonl": export_all_of_a_scope,
    "Transfer.export_jsonl": export,
    "Memory.list_records": list_records,
    "Memory.recall": recall,
    "Memory.history": lambda case: case.memory.history(
        case.one(*case.other.ids, *case.me.ids), scope=case.scope
    ),
    "Upkeep.indexed": lambda case: case.memory.upkeep.indexed(
        case.one(*case.other.ids, *case.me.ids), scope=case.scope
    ),
    "Documents.search": search_documents,
    "Documents.get": lambda case: case.documents().get([*case.other.ids, *case.me.ids]),
    "Documents.list": lambda case: case.documents().list(filters=case.draw(FILTERS)),
    "Documents.chunks": lambda case: case.documents().chunks(case.one(*case.other.ids, *case.me.ids)),
    "Documents.vectors": lambda case: case.documents().vectors([*case.other.ids, *case.me.ids]),
    "Items.search": search_items,
    "Items.get": lambda case: case.items().get(case.namespace, case.one(*case.other.ids, *case.me.ids)),
    "Items.namespaces": lambda case: case.items().namespaces(case.namespace),
    "langgraph MemkitStore": search_langgraph_store,
    "langchain MemkitVectorStore": search_langchain_store,
    "llamaindex MemkitVectorStore": search_llamaindex_store,
    "Sessions.read": lambda case: case.memory.sessions.read(
        scope=case.session,
        last=case.one(None, 1, 9),
        before=case.one(None, 1, 10**6),
        agent_id=case.one(None, case.other.marker),
        parent_agent_id=case.one(None, case.other.marker),
    ),
    "Sessions.for_model": lambda case: case.memory.sessions.for_model(scope=case.session),
    "Sessions.window": lambda case: case.memory.sessions.window(
        scope=case.session, last=case.one(None, 1, 9), max_tokens=case.one(None, 1, 999)
    ),
    "Sessions.relevant_window": lambda case: case.memory.sessions.relevant_window(
        case.query,
        scope=case.session,
        recent=1,
        merge=case.one("append", "prepend", "interleave"),
        neighbours=case.one(0, 2),
        max_tokens=case.one(None, 99),
    ),
    "Summaries.get": lambda case: case.memory.summaries.get(scope=case.session),
    "Summaries.context": lambda case: case.memory.summaries.context(
        scope=case.session, max_tokens=case.one(None, 1, 99)
    ),
    "Memory.turn_context": lambda case: case.memory.turn_context(
        case.session,
        case.query,
        scopes=case.one(None, [*case.me.scopes]),
        recent=case.one(0, 1, 9),
        include_messages=case.one(False, True),
        max_tokens=case.one(None, 99, 999),
    ),
    "Memory.turn_memories": lambda case: case.memory.turn_memories(
        case.session, case.query, scopes=case.one(None, [*case.me.scopes])
    ),
    "Sessions.get": lambda case: case.memory.sessions.get(scope=case.session),
    "Sessions.list": lambda case: case.memory.sessions.list(scope=case.me.user, limit=case.one(None, 1)),
    "WorkingMemory.get": lambda case: noted(case).get(scope=case.noted_by),
    "WorkingMemory.history": lambda case: noted(case).history(scope=case.noted_by),
    "WorkingMemory.instructions": lambda case: noted(case).instructions(scope=case.noted_by),
    "Runs.load": lambda case: case.memory.runs.load(case.one(*case.other.ids), scope=case.scope),
    "Formation.budget": lambda case: case.memory.formation.budget(scope=case.scope),
    "Formation.set_aside": lambda case: case.memory.formation.set_aside(scope=case.session),
    "Runs.list": lambda case: case.memory.runs.list(
        scope=case.scope, status=case.one(None, "paused", case.other.marker)
    ),
    "MemkitChatMessageHistory.messages": lambda case: case.of_langchain().messages,
    "MemkitChatMessageHistory.raw_messages": lambda case: case.of_langchain().raw_messages,
    "MemkitChatMessageHistory.turn_messages": lambda case: case.of_langchain().turn_messages(case.query),
    "MemkitMiddleware.wrap_model_call": lambda case: case.of_agent().wrap_model_call(
        case.model_call(), prompt_of
    ),
    "MemkitMemoryBlock.aget": lambda case: asyncio.run(
        case.of_block().aget([ChatMessage(case.query)], session_id=case.session.id)
    ),
    "MemkitChatStore.get_messages": lambda case: case.of_chats().get_messages(case.session.id),
    "MemkitChatStore.get_keys": lambda case: case.of_chats().get_keys(),
    "MemkitMemory.get": lambda case: case.of_llamaindex().get(input=case.query),
    "MemkitMemory.get_all": lambda case: case.of_llamaindex().get_all(),
    "search_memory": lambda case: memory_tools(case.memory, scope=case.scope)[1](
        case.query, limit=50, filter=case.filters
    ),
    "langchain MemkitRetriever": retrieve_langchain,
    "llamaindex MemkitRetriever": retrieve_llamaindex,
}


def update(case):
    """What only the other has cannot be changed, and it is not told that it is there."""
    change = methodcaller(
        "update", case.one(*case.other.ids), scope=case.scope, content=f"{case.me.marker} anew"
    )
    try:
        return change(case.memory)
    except RecordNotFoundError as error:
        return error


def hostile_metadata(case):
    other = case.other
    identity = {
        "user_id": other.user.id,
        "scope": str(other.user),
        "id": other.ids[0],
        "memkit_id": other.ids[0],
    }
    return case.draw(METADATA) | identity | {"secret": case.me.marker}


def say(case, said):
    return Message(
        role=Role.USER, text=said, id=case.one(*case.other.message_ids), metadata=hostile_metadata(case)
    )


def lived(verb, **options):
    """A verb on one record: what only the other has cannot be changed, and it is not told that it is there."""

    def call(case):
        wanted = case.one(*case.other.ids)
        given = {name: value(case) for name, value in options.items()}
        try:
            return methodcaller(verb, wanted, *given.pop("content", ()), scope=case.scope, **given)(
                case.memory
            )
        except (RecordNotFoundError, ConflictError, InvalidPromotionError) as error:
            return error

    return call


def compact(case):
    ids = case.one([case.other.ids[0]], [*case.other.ids], [*case.me.ids])
    return case.memory.compact(
        ids, scope=case.scope, summarize=lambda records: " ".join(one.content for one in records)
    )


def feedback(case):
    """What the other was answered cannot be marked, and it is not told that it was asked."""
    theirs = case.memory.recall(FOUND_BY_ALL, scope=case.other.user)
    own = case.memory.recall(FOUND_BY_ALL, scope=case.me.user)
    try:
        case.memory.feedback(theirs.recall_id or "none", case.one(*case.other.ids), scope=case.scope)
    except RecordNotFoundError as error:
        refused = str(error)
    else:
        refused = case.other.marker
    return refused, own


WRITES = {
    "Memory.feedback": feedback,
    "Memory.confirm": lived("confirm"),
    "Memory.reject": lived("reject"),
    "Memory.archive": lived("archive"),
    "Memory.restore": lived("restore"),
    "Memory.undo": lived("undo"),
    "Memory.supersede": lived("supersede", content=lambda case: (f"{case.me.marker} anew",)),
    "Memory.promote": lived(
        "promote", to=lambda case: case.one(*case.me.scopes), move=lambda case: case.one(True, False)
    ),
    "Memory.promote_latest": lambda case: case.memory.promote_latest(
        scope=case.session,
        tags=case.one([case.other.marker], [case.me.marker]),
        to=case.one(None, case.me.broad),
    ),
    "Memory.compact": compact,
    "Profiles.add": lambda case: case.memory.profiles.add(
        Profile(key=case.one("k", case.other.ids[0]), document={"secret": case.me.marker}), scope=case.scope
    ),
    "Episodes.add": lambda case: case.memory.episodes.add(
        Episode(summary=f"{case.me.marker} {FOUND_BY_ALL}", topic=case.me.marker), scope=case.scope
    ),
    "Skills.add": lambda case: case.memory.skills.add(
        Skill(task_type=f"{case.me.marker} {FOUND_BY_ALL}", steps=[case.me.marker]), scope=case.scope
    ),
    "Memory.add": lambda case: case.memory.add(
        f"{case.me.marker} again",
        scope=case.scope,
        id=case.one(*case.other.ids),
        metadata=hostile_metadata(case),
        key=case.one(None, "k"),
        pending=case.one(False, True),
    ),
    "Memory.add_many": lambda case: case.memory.add_many(
        [NewMemory(content=f"{case.me.marker} {i}", id=i) for i in case.other.ids], scope=case.scope
    ),
    "Memory.update": update,
    "Memory.import_jsonl": import_again,
    "Transfer.import_jsonl": import_again,
    "Memory.delete": lambda case: case.memory.delete(
        *case.one((), (case.one(*case.other.ids),)), scope=case.scope
    ),
    "Documents.put": lambda case: case.documents().put(
        [NewDocument(content=case.me.marker, id=i, metadata=hostile_metadata(case)) for i in case.other.ids]
    ),
    "Documents.add_document": lambda case: case.documents().add_document(
        f"{case.me.marker} {FOUND_BY_ALL}",
        id=case.one(*case.other.ids),
        chunker=in_one_chunk,
        context=case.me.marker,
        metadata=hostile_metadata(case),
    ),
    "Documents.delete": lambda case: case.one(
        lambda: case.documents().delete(case.other.ids),
        lambda: case.documents().delete(filters=case.draw(FILTERS)),
    )(),
    "Documents.clear": lambda case: case.documents().clear(),
    "Items.put": lambda case: case.items().put(
        [
            NewItem(namespace=case.namespace, key=i, value=hostile_metadata(case), texts=[case.me.marker] * 2)
            for i in case.me.ids
        ],
        delete=[(case.namespace, i) for i in case.other.ids],
    ),
    "Items.delete": lambda case: case.items().delete(case.namespace, case.one(*case.other.ids)),
    "Items.clear": lambda case: case.items().clear(),
    "Sessions.append": lambda case: case.memory.sessions.append(
        [say(case, f"{case.me.marker} once more")], scope=case.session
    ),
    "Sessions.create": lambda case: case.memory.sessions.create(
        scope=case.session, title=case.me.marker, metadata=hostile_metadata(case)
    ),
    "Sessions.update": lambda case: case.memory.sessions.update(
        scope=case.session, title=case.one(None, case.me.marker), metadata=hostile_metadata(case)
    ),
    "Sessions.generate_title": lambda case: case.memory.sessions.generate_title(
        scope=case.session, model=lambda prompt: prompt[-80:]
    ),
    "WorkingMemory.update": lambda case: noted(case).update(
        case.me.marker, scope=case.noted_by, mode=case.one("append", "replace")
    ),
    "WorkingMemory.clear": lambda case: noted(case).clear(scope=case.noted_by),
    "WorkingMemory.undo": lambda case: noted(case).undo(scope=case.noted_by),
    "WorkingMemory.tools": lambda case: [
        case.one(*noted(case).tools(scope=case.noted_by)[::2])() for _ in range(2)
    ],
    "Runs.save": lambda case: case.memory.runs.save(
        case.one(*case.other.ids), case.me.marker, scope=case.scope, status=case.one("paused", case.me.marker)
    ),
    "Runs.delete": lambda case: case.memory.runs.delete(case.one(*case.other.ids), scope=case.scope),
    "PersistQueue.append": lambda case: case.memory.sessions.queue.append(
        [say(case, f"{case.me.marker} soon")], scope=case.session
    ),
    "PersistQueue.turn": lambda case: case.memory.sessions.queue.turn(
        [say(case, f"{case.me.marker} in a turn")], scope=case.session
    ),
    "PersistQueue.settle": lambda case: case.memory.sessions.queue.settle(case.scope),
    "Sessions.delete": lambda case: case.memory.sessions.delete(case.other.message_ids, scope=case.session),
    "Sessions.replace": lambda case: case.memory.sessions.replace(
        [say(case, f"{case.me.marker} instead")],
        scope=case.session,
        keep=case.one([], case.other.message_ids),
    ),
    "Sessions.clear": lambda case: case.memory.sessions.clear(scope=case.session),
    "Summaries.update": lambda case: case.memory.summaries.update(scope=case.session, threshold=1, keep=1),
    "Upkeep.consolidate": lambda case: case.memory.upkeep.consolidate(
        scope=case.scope, dry_run=case.one(True, False)
    ),
    "Formation.run": lambda case: case.memory.formation.run(
        scope=case.session, assistant=True, again=case.one(True, False)
    ),
    "Formation.set_budget": lambda case: case.memory.formation.set_budget(
        case.one(None, 7), scope=case.scope
    ),
    "Summaries.clear": lambda case: case.memory.summaries.clear(scope=case.session),
    "MemkitChatMessageHistory.add_messages": lambda case: case.of_langchain().add_messages(
        [
            RemoveMessage(id=case.other.message_ids[0]),
            HumanMessage(case.me.marker, id=case.other.message_ids[0]),
        ]
    ),
    "MemkitChatMessageHistory.clear": lambda case: case.of_langchain().clear(),
    "MemkitMiddleware.before_agent": lambda case: case.of_agent().before_agent(
        {"messages": [HumanMessage(f"{case.me.marker} {FOUND_BY_ALL}", id=case.other.message_ids[0])]},
        Runtime(),
    ),
    "MemkitMiddleware.after_agent": lambda case: case.of_agent().after_agent(
        {"messages": [HumanMessage(case.me.marker, id=case.other.message_ids[0])]}, Runtime()
    ),
    "MemkitMemoryBlock.aput": lambda case: asyncio.run(
        case.of_block().aput([ChatMessage(case.me.marker)], session_id=case.session.id)
    ),
    "MemkitMemory.put": lambda case: case.of_llamaindex().put(ChatMessage(case.me.marker)),
    "MemkitMemory.put_messages": lambda case: case.of_llamaindex().put_messages(
        [ChatMessage(case.me.marker)]
    ),
    "MemkitMemory.set": lambda case: case.of_llamaindex().set([ChatMessage(case.me.marker)]),
    "MemkitMemory.reset": lambda case: case.of_llamaindex().reset(),
    "manage_memory": lambda case: memory_tools(case.memory, scope=case.scope)[0](
        case.one(None, case.me.marker),
        case.one("create", "update", "delete"),
        case.one(None, *case.other.ids),
    ),
    "MemkitChatStore.add_message": lambda case: case.of_chats().add_message(
        case.session.id, ChatMessage(case.me.marker)
    ),
    "MemkitChatStore.set_messages": lambda case: case.of_chats().set_messages(
        case.session.id, [ChatMessage(case.me.marker)]
    ),
    "MemkitChatStore.delete_messages": lambda case: case.of_chats().delete_messages(case.session.id),
    "MemkitChatStore.delete_message": lambda case: case.of_chats().delete_message(
        case.session.id, case.one(0, 1, -1)
    ),
    "MemkitChatStore.delete_last_message": lambda case: case.of_chats().delete_last_message(case.session.id),
}
NEITHER = {
    *("Memory.open", "Memory.close", "Memory.closed", "Memory.path", "Memory.flush"),
    "Memory.counters",  # numbers of the process, for its operator
    "Memory.redacted",  # counts of the process, by kind, for its operator
    "Memory.capabilities",  # of the whole memory: counts and the embedder's last error, for its operator
    "Memory.documents",  # gives a collection, whose verbs are listed
    *("Memory.profiles", "Memory.episodes", "Memory.skills", "Memory.formation"),  # as above
    *("Formation.due", "Formation.run_due"),  # of all sessions, for the scheduler
    *("Documents.space", "Documents.embedder", "Memory.items", "Items.space", "Items.embedder"),
    # Of the whole store, for its operator: counts, kinds and ids, no content.
    *("Upkeep.forget", "Upkeep.doctor", "Upkeep.stats"),
    *("Upkeep.run_due", "Upkeep.start", "Upkeep.stop", "Upkeep.jobs"),
    *("Upkeep.verify", "Upkeep.repair", "Upkeep.reindex", "Upkeep.sweep", "Upkeep.purge"),
    "Upkeep.reembed",
    "Upkeep.recall_log",  # of the whole store, queries included, for its operator
    "Transfer.backup",  # of the whole store, into a file of the operator's
    *("Sessions.checked", "WorkingMemory.using"),  # touch no store
    "Summaries.last_error",  # of the whole process, for its operator; tells no text of a conversation
    # The first of the whole memory, for its operator: counts and the store's last error.
    *("PersistQueue.state", "PersistQueue.flush", "PersistQueue.run_due", "PersistQueue.close"),
    *("MemkitMiddleware.name", "MemkitMiddleware.state_schema"),
    # As after_agent.
    *("MemkitMiddleware.before_model", "MemkitMiddleware.after_model"),
    *("MemkitMemory.class_name", "MemkitMemory.from_defaults", "MemkitMemory.tokenizer_fn"),
    *("MemkitChatStore.class_name", "MemkitChatStore.to_dict"),
    *("MemkitChatStore.scope", "MemkitChatStore.user_scope"),
    *("MemkitMemory.scope", "MemkitMemory.user_scope", "MemkitMemory.last_missing", "MemkitMemory.to_dict"),
}
PARTS = {
    "sessions": Sessions,
    "summaries": Summaries,
    "working": WorkingMemory,
    "runs": Runs,
    "upkeep": Upkeep,
    "transfer": Transfer,
}
"""What hangs on a `Memory`, each with verbs of its own."""


def public_methods(kind):
    for name, value in vars(kind).items():
        inner = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        if not name.startswith(("_", "model_")) and getattr(inner, "__module__", None) == kind.__module__:
            yield name


@pytest.mark.parametrize(
    "kind",
    [
        Memory,
        Documents,
        Items,
        *PARTS.values(),
        *(Profiles, Episodes, Skills, Formation),
        PersistQueue,
        langchain_memkit.MemkitChatMessageHistory,
        langchain_memkit.MemkitMiddleware,
        llamaindex_memkit.MemkitChatStore,
        llamaindex_memkit.MemkitMemory,
        llamaindex_memkit.MemkitMemoryBlock,
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_public_method_is_listed(kind):
    """Each public method is a read, a write or neither: a new one is driven below, or this fails."""
    listed = READS.keys() | WRITES.keys() | NEITHER
    for name in public_methods(kind):
        # The async form of a listed method is the same call in a worker thread.
        forms = {f"{kind.__name__}.{name.removeprefix(mark)}" for mark in ("", "a", "aget_")}
        assert forms & listed, f"{kind.__name__}.{name} is new: add it to READS, WRITES or NEITHER"


def test_every_part_of_a_memory_is_listed():
    """What hangs on a memory and has verbs of its own is in `PARTS`."""
    with Memory.open(":memory:") as memory:
        parts = {name for name in vars(memory) if not name.startswith("_")} - {"config"}
    assert parts == PARTS.keys()


# ------------------------------------------------------------------------------- the property


def write(case):
    """What a tenant has: records in every scope, two messages, the marker in every field that holds text."""
    me = case.me
    fields = {
        "tags": [me.marker],
        "source": me.marker,
        "agent_id": me.marker,
        "metadata": hostile_metadata(case),
    }
    for scope in me.scopes:
        # No two texts alike: of those that are, a recall of several scopes shows one.
        items = [
            NewMemory(content=f"{me.marker} {FOUND_BY_ALL} {scope.kind} {n}", id=i, **fields)
            for n, i in enumerate((me.ids[0], me.secret_id))
        ]
        case.memory.add_many(items, scope=scope, background=scope is not me.user)
        case.memory.documents(NOTES, scope=scope).put(
            [
                NewDocument(content=f"{me.marker} {FOUND_BY_ALL}", id=i, metadata=fields["metadata"])
                for i in (me.ids[0], me.secret_id)
            ]
        )
        case.memory.documents(NOTES, scope=scope).add_document(
            f"{me.marker} {FOUND_BY_ALL}", id=me.ids[0], chunker=in_one_chunk, context=me.marker
        )
        texts = [f"{me.marker} {FOUND_BY_ALL}", me.marker]
        case.memory.items(NOTES, scope=scope).put(
            [
                NewItem(namespace=(NOTES,), key=i[:900], value=fields["metadata"], texts=texts)
                for i in (me.ids[0], me.secret_id)
            ]
        )
    said = [
        Message(
            role=role,
            text=f"{me.marker} {FOUND_BY_ALL}",
            id=i,
            speaker=me.marker,
            agent_id=me.marker,
            parent_agent_id=me.marker,
            metadata=fields["metadata"],
        )
        for i, role in ((me.message_ids[0], Role.USER), (me.secret_id, Role.ASSISTANT))
    ]
    case.memory.sessions.append(said, scope=me.session)
    case.memory.summaries.update(scope=me.session, threshold=1, keep=1)
    case.memory.sessions.update(scope=me.session, title=me.marker, metadata=fields["metadata"])
    for scope in (me.user, me.session):
        case.memory.working.update(me.marker, scope=scope)
        case.memory.working.update(me.marker, scope=scope)
    for scope, i in itertools.product(me.scopes, (me.ids[0], me.secret_id)):
        case.memory.runs.save(i, {"secret": me.marker}, scope=scope, status=case.one("paused", me.marker))


def everything_of(memory, tenant):
    """All that a tenant can see, the scores that recall gives it, and those of its keyword leg."""
    seen = []
    for scope in tenant.scopes:
        seen += memory.list_records(scope=scope, status=list(Status))
        seen += memory.documents(NOTES, scope=scope).list()
        seen += memory.list_records(scope=scope, space=f"store:{NOTES}")
    seen += memory.list_records(scope=tenant.session, space=MESSAGES)
    seen += memory.sessions.read(scope=tenant.session) + memory.sessions.list(scope=tenant.user)
    seen.append(memory.summaries.get(scope=tenant.session))
    seen += memory.working.history(scope=tenant.session) + memory.working.history(scope=tenant.user)
    seen += [memory.runs.list(scope=scope) for scope in tenant.scopes]
    hits = memory.recall(FOUND_BY_ALL, scope=tenant.scopes, include_messages=True, top_k=50)
    # Sums of floats depend on what else is in an index in the last digits, no more.
    scores = {hit.record.point_id: pytest.approx(hit.score, abs=1e-6) for hit in hits}
    # How often they were recalled is written whenever the worker comes to it.
    seen = [
        dataclasses.replace(one, access_count=0, last_accessed_at=None)
        if isinstance(one, MemoryRecord)
        else one
        for one in seen
    ]
    return repr(seen), scores, {hit.record.point_id: hit.signals.keyword for hit in hits}


def answer(ask, case):
    """What comes back, errors and their causes included, as text."""
    try:
        return repr(ask(case))
    except MemkitError as error:
        told, cause = [], error
        while cause is not None:
            told.append(f"{cause!r} {cause}")
            cause = cause.__cause__ or cause.__context__
        return "\n".join(told)


QUIETLY = settings(
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.differing_executors,
    ],
)


@pytest.mark.parametrize("kind", WORLDS)
def test_no_read_shows_another_tenant(kind, tmp_path):
    """Whatever one tenant reads or writes: nothing of the other comes back, and the other's own stays."""
    path = ":memory:" if kind == "in memory" else tmp_path / "m.db"
    # The built-in embedder is fast enough for a recall to embed what waits itself.
    with Memory.open(
        path, config=Config(disk_reserve=1, recall_log=RecallLog()), clock=lambda: NOW
    ) as memory:
        if kind == "in a file":
            # It would spend most of the time flushing the index.
            memory._worker.stop(0)

        @settings(QUIETLY, max_examples=WORLDS[kind])
        @given(pair=PAIRS, data=st.data())
        def each(pair, data):
            nothing_leaks(memory, pair, data)

        each()


def nothing_leaks(memory, pair, data):
    """Two tenants write, one of them does its worst, and both are looked at."""
    memory.delete(everything=True)
    cases = [Case(memory=memory, me=me, other=other, draw=data.draw) for me, other in (pair, reversed(pair))]
    for case in cases:
        write(case)
    case = data.draw(st.sampled_from(cases))
    theirs = everything_of(memory, case.other)
    assert case.other.marker in theirs[0]
    assert theirs[1]
    for name in data.draw(st.lists(st.sampled_from(sorted(WRITES)), max_size=2)):
        assert case.other.marker not in answer(WRITES[name], case), name
    least, most = READS_EACH
    for name in data.draw(st.lists(st.sampled_from(sorted(READS)), min_size=least, max_size=most)):
        assert case.other.marker not in answer(READS[name], case), name
    assert everything_of(memory, case.other) == theirs
