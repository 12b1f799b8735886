"""What can happen to the folder of the vector index: each kind of damage, and what must come of it."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from faults.findings import Findings, Plan
from memkit_core import Config, Memory, NewMemory, Ranking, Scope
from memkit_core.embedders.wordllama import WordLlamaEmbedder
from memkit_core.ports import Matrix, Vector

ALICE = Scope.user("alice")
WORDS = (
    *("garden", "bicycle", "vegetarian", "piano", "ocean"),
    *("contract", "keyboard", "mountain", "winter", "river"),
)
QUESTIONS = ("music", "cold season", "something to ride")
DENSE = Ranking(keyword=0.0)
_FACTS = 3 * len(WORDS)
NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)

Damage = Callable[[Path], object]
"""Does something to the index of the memory whose file it is given."""
Answers = list[tuple[str, float | None]]
"""Contents, best first, with their similarities."""


class CountingEmbedder:
    """The built-in embedder, counting the texts it embeds for storing."""

    model = "counting"

    def __init__(self) -> None:
        """Nothing counted yet."""
        self.texts = 0
        self._real = WordLlamaEmbedder()

    def embed_documents(self, texts: list[str]) -> Matrix:
        """One row a text."""
        self.texts += len(texts)
        return self._real.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        """The query's vector."""
        return self._real.embed_query(text)


def written(path: Path, embedder: CountingEmbedder) -> Path:
    """Write thirty indexed facts to a memory at `path` and close it."""
    with Memory.open(path, embedder=embedder) as memory:
        pairs = zip(WORDS * 3, WORDS[1:] * 4, strict=False)
        facts = [f"Alice likes the {a} and the {b}" for a, b in pairs]
        memory.add_many([NewMemory(content=text, id=str(i)) for i, text in enumerate(facts)], scope=ALICE)
        assert memory.flush()
        assert memory.capabilities.index
    return path


def answers(memory: Memory, *, missing: Iterable[str] = ()) -> Answers:
    """What dense recall finds; a leg that was missing and is not one of `missing` is in the answer too."""
    found: Answers = []
    for question in QUESTIONS:
        hits = memory.recall(question, scope=ALICE, ranking=DENSE, now=NOW)
        found += [(hit.record.content, round(hit.signals.similarity or 0.0, 5)) for hit in hits]
        found += [(f"missing: {leg}", None) for leg in sorted(hits.missing.difference(missing))]
    return found


def exact(path: Path, embedder: CountingEmbedder) -> Answers:
    """What dense recall finds with no index at all: the exact scan of the stored vectors."""
    with Memory.open(path, embedder=embedder, config=Config(disk_reserve=2**53)) as memory:
        return answers(memory, missing={"index"})


def home_of(path: Path) -> Path:
    """The folder in which the indexes of a file are."""
    return path.with_name(path.name + ".index")


def folder_of(path: Path) -> Path:
    """The folder of its one index."""
    (folder,) = [one for one in home_of(path).iterdir() if one.is_dir()]
    return folder


def manifest_of(path: Path) -> Path:
    """What the keeper notes beside the index."""
    return folder_of(path).with_suffix(".json")


def damaged(plan: Plan) -> Findings:
    """Damage the index in one way after the other, a fresh memory each; `amount` times each way."""
    findings = Findings()
    embedder = CountingEmbedder()
    for number in range(plan.amount):
        for name, damage in DAMAGES.items():
            folder = plan.folder / f"{number} {name}"
            folder.mkdir()
            path = written(folder / "m.db", embedder)
            findings.add(mended(path, embedder, damage), f"{name}, round {number}")
    findings.notes.append(f"{len(DAMAGES)} kinds of damage a round, nothing embedded again")
    return findings


def mended(path: Path, embedder: CountingEmbedder, damage: Damage) -> Findings:
    """Damage the index of a `written` memory and use it: as if nothing had happened, with no embedding call.

    Damage that shows only in use is answered by the exact scan, flagged, and gone with the next recall.
    """
    expected, texts = exact(path, embedder), embedder.texts
    findings = Findings(acknowledged=_FACTS)
    damage(path)
    for _ in range(2):
        with Memory.open(path, embedder=embedder) as memory:
            first, again = answers(memory, missing={"index"}), answers(memory)
            findings.lost += len(set(expected).difference(first))
            findings.expect(first == expected, f"the first recall brings {first}")
            findings.expect(again == expected, f"the next recall brings {again}")
            findings.expect(memory.capabilities.index, "there is no index")
            memory.add("Alice likes the trumpet", scope=ALICE, id="new")
            hits = memory.recall("trumpet", scope=ALICE, ranking=DENSE)
            findings.expect(bool(hits) and hits[0].record.id == "new", "a new record is not found")
            findings.expect(memory.delete("new", scope=ALICE).records == 1, "the new record is not deleted")
            findings.expect(memory.flush(), "flush leaves something waiting")
        aside = [one.name for one in home_of(path).glob("*.aside") if one.is_dir()]
        findings.expect(not aside, f"{aside} is left behind")
    # The new record's text, twice; nothing of what was stored before.
    findings.expect(embedder.texts - texts <= 2, f"{embedder.texts - texts - 2} texts were embedded again")  # noqa: PLR2004 - as said
    return findings


def _to_each(pattern: str, damage: Callable[[Path], None]) -> Damage:
    def edit(path: Path) -> None:
        files = [one for one in folder_of(path).rglob(pattern) if one.is_file()]
        assert files, f"the engine keeps no file {pattern} any more"
        for file in files:
            damage(file)

    return edit


def _overwrite(file: Path, size: int = 200_000) -> None:
    """Noise over the beginning of a file, in place."""
    with file.open("r+b") as opened:
        opened.write(random.Random(file.name).randbytes(min(size, file.stat().st_size)))  # noqa: S311 - noise


def _truncated(pattern: str, part: float) -> Damage:
    return _to_each(pattern, lambda file: os.truncate(file, int(file.stat().st_size * part)))


def _noise(pattern: str) -> Damage:
    return _to_each(pattern, _overwrite)


def _deleted(pattern: str) -> Damage:
    return _to_each(pattern, Path.unlink)


def _emptied(path: Path) -> None:
    folder = folder_of(path)
    shutil.rmtree(folder)
    folder.mkdir()


def _replaced_by_a_file(path: Path) -> None:
    folder = folder_of(path)
    shutil.rmtree(folder)
    folder.write_text("not a folder")


def _edited_manifest(**changes: object) -> Damage:
    def edit(path: Path) -> None:
        manifest = manifest_of(path)
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | changes))

    return edit


DAMAGES: dict[str, Damage] = {
    "vectors truncated": _truncated("chunk_0.mmap", 0),
    "vectors halved": _truncated("chunk_0.mmap", 0.0001),
    "vectors noise": _noise("chunk_0.mmap"),
    "vectors deleted": _deleted("chunk_0.mmap"),
    "vector status deleted": _deleted("vectors/status.dat"),
    "deleted flags noise": _noise("vector_storage-dense/deleted/flags_a.dat"),
    "payloads noise": _noise("payload_storage/*.dat"),
    "payload index noise": _noise("payload_index/*/*.dat"),
    "payload index deleted": _deleted("payload_index/*/*.dat"),
    "ids truncated": _truncated("mutable_id_tracker.mappings", 0.5),
    "ids noise": _noise("mutable_id_tracker.mappings"),
    "versions deleted": _deleted("mutable_id_tracker.versions"),
    "segment noise": _noise("segment.json"),
    "log truncated": _truncated("wal/*", 0),
    "log noise": _noise("wal/*"),
    "configuration truncated": _truncated("edge_config.json", 0.5),
    "everything truncated": _truncated("*", 0),
    "segments deleted": lambda path: shutil.rmtree(folder_of(path) / "segments"),
    "folder deleted": lambda path: shutil.rmtree(folder_of(path)),
    "folder emptied": _emptied,
    "a file in its place": _replaced_by_a_file,
    "home deleted": lambda path: shutil.rmtree(home_of(path)),
    "manifest deleted": lambda path: manifest_of(path).unlink(),
    "manifest garbage": lambda path: manifest_of(path).write_bytes(b"\xff{]"),
    "manifest of another store": _edited_manifest(store="other"),
    "manifest of another format": _edited_manifest(format=99),
    "manifest of another time": _edited_manifest(synced_through=1),
}
"""Each kind of damage by name."""
