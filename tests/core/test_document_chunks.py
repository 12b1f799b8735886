"""Long documents in a collection: cut into chunks, found, replaced and deleted as one."""

import dataclasses
import re
import threading
from pathlib import Path

import pytest

from memkit_core import BackendUnavailableError, Config, InvalidInputError, Memory, Scope
from memkit_core.chunking import HIERARCHY, Chunk, ContentChunker, Level
from memkit_core.documents import NewDocument, chunk_place
from memkit_core.indexing import Indexer
from memkit_core.stores.sqlite.database import Database

pytest.importorskip("semantic_text_splitter")

ALICE = Scope.user("alice")
GUIDE = """# Owl guide

Owls sleep all day and hunt at night. They are quiet.

## Food

Mostly mice. In winter also small birds, when there is snow on the fields.

## Homes

They live in barns and hollow trees. Some live in churches, where nobody disturbs them.
"""


class Counting:
    """Embeds by length and keeps what it was asked to embed."""

    model = "counting"

    def __init__(self):
        self.texts = []

    def embed_documents(self, texts):
        self.texts += texts
        return [[float(len(text)), 1.0] for text in texts]

    def embed_query(self, text):
        return [float(len(text)), 1.0]


@pytest.fixture
def memory(request, tmp_path):
    """Without a file, which is quick, unless a test asks for one."""
    with Memory.open(tmp_path / "m.db" if getattr(request, "param", "") == "file" else ":memory:") as opened:
        yield opened


in_both = pytest.mark.parametrize("memory", ["memory", "file"], indirect=True)


@pytest.fixture
def library(memory):
    return memory.documents("library", scope=ALICE)


SMALL = ContentChunker("documentation", sizes=90)
LEVELS = ContentChunker("documentation", sizes=(60, 120, 240))


def words(text):
    """One chunk a word: a chunker of somebody's own."""
    chunks, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        chunks.append(Chunk(content=word, start=start, end=start + len(word)))
        start += len(word)
    return chunks


def one_chunk(text, **fields):
    return [dataclasses.replace(Chunk(content=text, start=0, end=len(text)), **fields)]


class TestAdding:
    """`add_document` stores chunks that can be found and quoted."""

    def test_the_original_is_stored_with_its_place(self, library):
        """Each stored chunk is what stands in the text from `start` to `end`, and names its document."""
        stored = library.add_document(GUIDE, id="guide", chunker=SMALL, metadata={"lang": "en"})
        assert len(stored) > 3
        for number, record in enumerate(stored):
            place = chunk_place(record)
            assert GUIDE[place.start : place.end] == record.content
            assert (place.document, place.number, place.level) == ("guide", number, Level.MEDIUM)
            assert (record.source, record.metadata["lang"], record.tags) == ("guide", "en", ())
        assert library.chunks("guide") == stored == library.get([record.id for record in stored])

    def test_the_context_is_embedded_but_not_stored_as_text(self, tmp_path):
        """Title and headings are embedded ahead of each chunk, and find it by words; its content stays as it was."""
        embedder = Counting()
        with Memory.open(tmp_path / "m.db", embedder=embedder) as memory:
            library = memory.documents("library", scope=ALICE)
            stored = library.add_document(GUIDE, id="guide", chunker=SMALL, context="Birds of Lund")
            memory.flush()
            last = stored[-1]
            assert chunk_place(last).context == "Birds of Lund > Owl guide > Homes"
            assert f"Birds of Lund > Owl guide > Homes\n\n{last.content}" in embedder.texts
            assert "Lund" not in last.content
            found = library.search("Lund", mode="keyword", top_k=50)
            assert {hit.record.id for hit in found} == {record.id for record in stored}

    def test_any_function_can_cut(self, library):
        """A chunker is a function from a text to chunks."""
        stored = library.add_document("snow owl  barn", id="w", chunker=words)
        assert [(r.content, chunk_place(r).start) for r in stored] == [("snow", 0), ("owl", 5), ("barn", 10)]
        [hit] = library.search("barn", mode="keyword")
        assert hit.record.content == "barn"

    def test_an_id_is_made(self, library):
        """Without an id each call is a document of its own."""
        ids = {library.add_document("the same owl")[0].source for _ in range(2)}
        assert len(ids) == len(library.list()) == 2

    def test_a_blank_document_has_no_chunks(self, library):
        """Nothing is stored for it, and what stood under its id is gone."""
        library.add_document(GUIDE, id="guide")
        for text in ("", " \n"):
            assert library.add_document(text, id="guide") == []
        assert len(library.list()) == 0

    @pytest.mark.parametrize(
        "wrong",
        [
            {"text": None},
            {"text": b"owl"},
            {"id": ""},
            {"id": 7},
            {"chunker": "essay"},
            {"chunker": 7},
            {"chunker": None},
            {"chunker": ContentChunker},
            {"chunker": lambda text: None},
            {"chunker": lambda text: ["owl"]},
            {"chunker": lambda text: one_chunk("another text")},
            {"chunker": lambda text: one_chunk(text, start=-3)},
            {"chunker": lambda text: one_chunk(text, start="0")},
            {"chunker": lambda text: one_chunk(text, parent=0)},
            {"chunker": lambda text: one_chunk(text, parent=5)},
            {"chunker": lambda text: [Chunk(content="", start=0, end=0)]},
            {"chunker": lambda text: one_chunk(text, level="tiny")},
            {"chunker": lambda text: one_chunk(text, context=None)},
            {"chunker": lambda text: one_chunk(text, context=7)},
            {"context": 7},
            {"metadata": {"memkit_chunk": 1}},
            {"metadata": {"x": object()}},
        ],
    )
    def test_what_cannot_be_stored_changes_nothing(self, library, wrong):
        """Bad arguments and chunkers are refused before the old document goes."""
        before = library.add_document(GUIDE, id="guide")
        with pytest.raises(InvalidInputError):
            library.add_document(**{"text": "an owl", "id": "guide", **wrong})
        assert library.chunks("guide") == before

    @pytest.mark.parametrize("memory", ["file"], indirect=True)
    def test_what_no_file_can_hold_is_replaced_in_a_context(self, memory):
        """The context that a chunker gives is cleaned like a text: half a character becomes U+FFFD."""
        library = memory.documents("library", scope=ALICE)
        (stored,) = library.add_document("an owl", chunker=lambda text: one_chunk(text, context="a\ud800"))
        assert chunk_place(stored).context == "a\ufffd"

    def test_a_chunker_that_raises_changes_nothing(self, library):
        """The error of somebody's own chunker comes through, and the old document is still there."""
        before = library.add_document(GUIDE, id="guide")
        with pytest.raises(ZeroDivisionError):
            library.add_document("an owl", id="guide", chunker=lambda text: 1 / 0)
        assert library.chunks("guide") == before

    def test_too_many_chunks_are_refused(self):
        """A document of more chunks than a call may write is refused whole."""
        with Memory.open(":memory:", config=Config(max_batch=3)) as memory:
            library = memory.documents(scope=ALICE)
            with pytest.raises(InvalidInputError, match="at most 3 chunks of one document, got 4"):
                library.add_document("a b c d", chunker=words)
            assert len(library.list()) == 0

    def test_texts_that_come_with_vectors_cannot_be_cut(self, memory):
        """A collection whose vectors are given has nothing to embed chunks with, and says so."""
        given = memory.documents("given", scope=ALICE, embedding_model="theirs")
        with pytest.raises(InvalidInputError, match="come with the vectors of 'theirs'"):
            given.add_document(GUIDE)

    def test_a_collection_with_a_model_of_its_own(self, memory):
        """Chunks are embedded by the collection's embedder, where it has one."""
        embedder = Counting()
        library = memory.documents("own", scope=ALICE, embedder=embedder)
        stored = library.add_document(GUIDE, id="guide", chunker=SMALL)
        assert set(library.vectors([record.id for record in stored])) == {record.id for record in stored}
        library.add_document("an owl", id="guide")
        assert len(library.search("owl", top_k=50)) == 1

    def test_a_secret_across_a_cut_is_redacted(self, tmp_path):
        """The whole text is redacted before it is cut: no part of a secret is left at an end."""
        secret = "SECRET-0123456789"

        def redact(text):
            return text.replace(secret, "[gone]")

        with Memory.open(tmp_path / "m.db", config=Config(redact=redact)) as memory:
            library = memory.documents(scope=ALICE)
            library.add_document(
                f"An owl said {secret} to me.", chunker=ContentChunker(sizes=20, overlap=0), context=secret
            )
            told = repr(library.list())
            assert "0123" not in told
            assert "SECRET" not in told


class TestReplacing:
    """A document is replaced and deleted as a whole."""

    @in_both
    def test_the_same_id_replaces_all_chunks(self, library):
        """No chunk of the old text is left, whichever has more; other documents stay."""
        library.put([NewDocument(content="a plain owl", id="plain"), NewDocument(content="odd", id="guide")])
        library.add_document("an owl in the snow", id="other")
        for text in (GUIDE, "One owl.", GUIDE * 3, GUIDE):
            stored = library.add_document(text, id="guide", chunker=SMALL)
            assert library.chunks("guide") == stored
            assert len(library.list()) == len(stored) + 3
        library.add_document("snow", id="guide")
        assert [h.record.content for h in library.search("barns", mode="keyword")] == []
        assert len(library.search("owl snow", top_k=50)) == len(library.list()) == 4

    def test_what_did_not_change_is_not_embedded_again(self, tmp_path):
        """A document that grew at its end keeps the vectors of the chunks before."""
        embedder, config = Counting(), Config(embedding_cache=0)
        with Memory.open(tmp_path / "m.db", embedder=embedder, config=config) as memory:
            library = memory.documents(scope=ALICE)
            first = library.add_document(GUIDE, id="guide", chunker=LEVELS)
            memory.flush()
            assert len(embedder.texts) == len(first)
            embedder.texts.clear()
            stored = library.add_document(f"{GUIDE}\n## Songs\n\nHoot.\n", id="guide", chunker=LEVELS)
            memory.flush()
            assert 0 < len(embedder.texts) < len(stored) / 2
            assert len(library.vectors([record.id for record in stored])) == len(stored)

    @in_both
    def test_deleting_a_document_deletes_its_chunks(self, memory, library):
        """All of them in all sizes, with their vectors, by the one id; and nothing else."""
        kept = library.add_document("an owl", id="other")
        stored = library.add_document(GUIDE, id="guide", chunker=LEVELS)
        memory.flush()
        receipt = library.delete(["guide", "unknown"])
        assert (receipt.records, receipt.vectors) == (len(stored), len(stored))
        assert library.chunks("guide") == []
        assert [hit.record for hit in library.search("owl barn mice", top_k=50)] == kept
        assert library.delete(["guide"]).nothing

    def test_documents_and_chunks_go_in_one_transaction(self, tmp_path, monkeypatch):
        """What `delete` names goes together or not at all, documents of one text and of chunks."""
        with Memory.open(tmp_path / "m.db", embedder="none") as memory:
            library = memory.documents("library", scope=ALICE)
            library.put([NewDocument(content="an owl", id="plain")])
            library.add_document(GUIDE, id="guide", chunker=SMALL)
            memory.flush()
            write, here, written = Database.write, threading.current_thread(), []

            def counted(database, operation):
                if threading.current_thread() is here:
                    written.append(operation)
                return write(database, operation)

            monkeypatch.setattr(Database, "write", counted)
            assert library.delete(["plain", "guide"]).records > 1
            assert len(written) == 1
            assert list(library.list()) == []

    @pytest.mark.parametrize("verb", ["put", "add_document"])
    def test_what_is_not_indexed_yet_names_the_verb(self, library, monkeypatch, caplog, verb):
        """A warning says what was called, and that it was stored."""

        def fail(*_):
            raise BackendUnavailableError("down", backend="index", operation="sync")

        monkeypatch.setattr(Indexer, "sync", fail)
        getattr(library, verb)({"put": ["an owl"], "add_document": "an owl"}[verb])
        assert f"{verb}: stored, but not indexed yet" in caplog.text
        assert [record.content for record in library.list()] == ["an owl"]

    @in_both
    def test_threads_that_replace_one_document_leave_one(self, library):
        """However they interleave, at the end there are the chunks of one of the texts, whole."""
        texts = [f"owl{n} " * (n + 1) for n in range(8)]

        def replace(text):
            for _ in range(3):
                library.add_document(text, id="one", chunker=words)

        threads = [threading.Thread(target=replace, args=(text,)) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert " ".join(record.content for record in library.chunks("one")) in {
            text.strip() for text in texts
        }

    def test_a_chunk_can_be_deleted_alone(self, library):
        """Ids of chunks and filters work as for every document."""
        stored = library.add_document(GUIDE, id="guide", chunker=SMALL)
        assert library.delete([stored[0].id]).records == 1
        assert library.chunks("guide") == stored[1:]
        assert library.delete(filters={"source": "guide"}).records == len(stored) - 1

    def test_clear_and_a_restart(self, tmp_path):
        """Chunks survive a restart with all they are, and go when the collection is cleared."""
        with Memory.open(tmp_path / "m.db") as memory:
            stored = memory.documents(scope=ALICE).add_document(GUIDE, id="guide", chunker=LEVELS)
        with Memory.open(tmp_path / "m.db") as memory:
            library = memory.documents(scope=ALICE)
            assert library.chunks("guide") == stored
            assert library.clear().records == len(stored)
            assert len(library.search("owl", top_k=50)) == 0

    def test_an_export_takes_chunks_along(self, tmp_path):
        """Export and import move a chunked document as it is: places, parents and what it is found by."""
        with Memory.open(tmp_path / "a.db") as memory:
            stored = memory.documents(scope=ALICE).add_document(GUIDE, id="g", chunker=LEVELS, context="Lund")
            memory.export_jsonl(tmp_path / "all.jsonl", scope=ALICE)
        with Memory.open(tmp_path / "b.db") as memory:
            memory.import_jsonl(tmp_path / "all.jsonl")
            library = memory.documents(scope=ALICE)
            assert [r.metadata for r in library.chunks("g")] == [r.metadata for r in stored]
            [best, *_] = library.search("Lund churches", mode="keyword", level="small", parents=True)
            assert best.record.content in best.parent.content


class TestLevels:
    """One text in several sizes side by side."""

    @in_both
    def test_a_level_is_all_that_is_found(self, library):
        """A search finds chunks of one size: the one asked for, or the one the question asks for."""
        library.add_document(GUIDE, id="guide", chunker=LEVELS)
        for level in Level:
            for mode in ("dense", "keyword", "hybrid"):
                found = library.search("owls", level=level, top_k=50, mode=mode)
                assert {chunk_place(hit.record).level for hit in found} == {level}
        for query, level in (("Who lives in barns?", "medium"), ("Why mice?", "large"), ("owls", "small")):
            found = library.search(query, top_k=50)
            assert {chunk_place(hit.record).level.value for hit in found} == {level}

    def test_chunks_by_level(self, library):
        """`chunks` lists all sizes, the smallest first and in the order of the text, or one."""
        stored = library.add_document(GUIDE, id="guide", chunker=LEVELS)
        listed = library.chunks("guide")
        assert listed == stored
        assert [r for level in Level for r in library.chunks("guide", level=level)] == listed

    def test_the_parent_comes_with_the_hit(self, library):
        """`parents=True` brings the larger chunk that the hit lies in; the largest have none."""
        library.add_document(GUIDE, id="guide", chunker=LEVELS)
        for level, above in (("small", Level.MEDIUM), ("medium", Level.LARGE)):
            found = library.search("owls in barns", level=level, parents=True, top_k=50)
            assert len(found) > 1
            for hit in found:
                inner, outer = chunk_place(hit.record), chunk_place(hit.parent)
                assert (outer.level, inner.parent_id) == (above, hit.parent.id)
                assert outer.start <= inner.start < inner.end <= outer.end
        assert {hit.parent for hit in library.search("owls", level="large", parents=True)} == {None}
        assert {hit.parent for hit in library.search("owls", level="small")} == {None}

    def test_what_does_not_hold_the_hit_is_no_parent(self, library):
        """Where something else stands in the place of the parent by now, the hit comes without one."""
        library.add_document(GUIDE, id="guide", chunker=LEVELS)
        [hit] = library.search("churches", level="small", parents=True, top_k=1, mode="keyword")
        library.put([NewDocument(id=hit.parent.id, content="Eagles hunt by day.")])
        [again] = library.search("churches", level="small", parents=True, top_k=1, mode="keyword")
        assert (again.record, again.parent) == (hit.record, None)

    def test_other_documents_are_found_at_every_level(self, library):
        """Plain documents and those in one size stand beside a hierarchy, whatever the level; parents are None."""
        library.add_document(GUIDE, id="guide", chunker=LEVELS)
        library.add_document("owls of the north", id="one size")
        library.put(
            [NewDocument(content="owls of the south", id="plain", metadata={"memkit_chunk": {"level": 0}})]
        )
        for level in (None, *Level):
            found = library.search("owls of the north and south", level=level, parents=True, top_k=50)
            plain = [hit for hit in found if hit.record.source != "guide"]
            assert {(hit.record.content, hit.parent) for hit in plain} == {
                ("owls of the north", None),
                ("owls of the south", None),
            }

    def test_two_sizes_answer_for_three_levels(self, library):
        """The nearest size there is answers for a level, the smaller one for the one between."""
        library.add_document(GUIDE, id="guide", chunker=ContentChunker("documentation", sizes=(60, 240)))
        found = {level: library.search("owls", level=level, top_k=50) for level in Level}
        sizes = {
            level: {chunk_place(hit.record).level.value for hit in hits} for level, hits in found.items()
        }
        assert sizes == {"small": {"small"}, "medium": {"small"}, "large": {"large"}}

    def test_the_hierarchy_of_the_specification(self, library):
        """256, 512 and 1024 characters, each at most so long, each small one in a large one."""
        text = "\n\n".join(
            f"{n}. The owl {n} sleeps all day and hunts mice at night in barn {n}." for n in range(99)
        )
        library.add_document(text, id="long", chunker=ContentChunker(sizes=HIERARCHY))
        for level, size in zip(Level, HIERARCHY, strict=True):
            lengths = [len(record.content) for record in library.chunks("long", level=level)]
            assert size * 0.7 < max(lengths) <= size
        [hit] = library.search("Where does owl 77 hunt?", mode="keyword", top_k=1, parents=True)
        assert "owl 77 " in hit.record.content
        assert hit.record.content in hit.parent.content

    @pytest.mark.parametrize("wrong", [{"level": "tiny"}, {"level": 256}, {"parents": 1}, {"parents": None}])
    def test_unknown_levels_are_refused(self, library, wrong):
        """What is no level and no flag is said to be none."""
        library.add_document(GUIDE, id="guide", chunker=LEVELS)
        with pytest.raises(InvalidInputError):
            library.search("owls", **wrong)

    def test_filters_hold_beside_the_level(self, library):
        """Filters on metadata and on the document narrow a search, within the level."""
        for name in ("a", "b"):
            library.add_document(GUIDE, id=name, chunker=LEVELS, metadata={"name": name})
        for where in ({"metadata.name": "b"}, {"source": "b"}):
            found = library.search("owls", filters=where, top_k=50)
            assert {(hit.record.source, chunk_place(hit.record).level) for hit in found} == {
                ("b", Level.SMALL)
            }


def test_chinese_documents(memory):
    """A Chinese text is cut between its sentences, found by its words, and quoted to the character."""
    text = "谷仓里住着一只猫头鹰。它白天睡觉，晚上捉老鼠。\n\n冬天下雪以后，它搬到教堂的塔楼里。" * 8  # noqa: RUF001 - Chinese marks
    library = memory.documents("中文", scope=ALICE)
    library.add_document(text, id="猫头鹰", chunker=ContentChunker("article", sizes=(40, 80)), context="鸟类")
    found = library.search("教堂的塔楼", mode="keyword", level="small", top_k=3, parents=True)
    assert len(found) == 3
    for hit in found:
        place = chunk_place(hit.record)
        assert text[place.start : place.end] == hit.record.content
        assert "塔楼" in hit.record.content
        assert hit.record.content in hit.parent.content


async def test_awaited(tmp_path):
    """`AsyncMemory` has the same verbs."""
    from memkit_core import AsyncMemory

    async with await AsyncMemory.open(tmp_path / "m.db") as memory:
        library = await memory.documents("library", scope=ALICE)
        stored = await library.add_document(GUIDE, id="guide", chunker=LEVELS, context="Lund")
        assert await library.chunks("guide") == stored
        found = await library.search("owls", level="small", parents=True)
        assert all(hit.record.content in hit.parent.content for hit in found)


def test_nobody_puts_a_chunk(library):
    """Metadata of a plain document that looks like a chunk's is the user's: neither context nor place."""
    record = library.put(
        [NewDocument(content="owl", metadata={"memkit_chunk": {"context": "Lund", "level": 2}})]
    )[0]
    assert chunk_place(record) is None
    assert record.index_text == "owl"


def test_a_damaged_place_is_read_as_far_as_it_goes(library):
    """What somebody edited in an export breaks no read."""
    record = dataclasses.replace(
        library.add_document("owl", id="x")[0], metadata={"memkit_chunk": {"level": 9}}
    )
    assert chunk_place(record).level is Level.LARGE
    assert chunk_place(dataclasses.replace(record, metadata={"memkit_chunk": 7})) is None


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    """The example in `docs/chunking.md` does what it says."""
    pytest.importorskip("tree_sitter_python")
    page = Path(__file__).parents[2] / "docs" / "chunking.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(page), "exec"), {})
