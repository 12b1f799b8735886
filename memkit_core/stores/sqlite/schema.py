"""The tables, and the ordered steps that bring an older file up to date."""

from __future__ import annotations

import sqlite3
import uuid

from memkit_core.errors import SchemaError

APPLICATION_ID = 0x6D6B6974
"""`mkit`: tells a memkit file from any other SQLite file."""

_FIRST = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- One row an owner. `digest` is what everything keys on, `path` the readable form it is checked with.
CREATE TABLE scopes(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  digest BLOB NOT NULL UNIQUE,
  path TEXT NOT NULL,
  parent_id INTEGER REFERENCES scopes(id)
);
CREATE INDEX scopes_by_parent ON scopes(parent_id) WHERE parent_id IS NOT NULL;

-- The rows that share keyword statistics: one space of one owner.
CREATE TABLE partitions(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  scope_id INTEGER NOT NULL REFERENCES scopes(id),
  space TEXT NOT NULL,
  documents INTEGER NOT NULL DEFAULT 0,
  terms INTEGER NOT NULL DEFAULT 0,
  UNIQUE(scope_id, space)
);

CREATE TABLE records(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  scope_id INTEGER NOT NULL REFERENCES scopes(id),
  space TEXT NOT NULL,
  id TEXT NOT NULL,
  partition_id INTEGER NOT NULL REFERENCES partitions(id),
  point_id BLOB NOT NULL UNIQUE,
  content TEXT NOT NULL,
  type TEXT NOT NULL,
  key TEXT,
  importance REAL NOT NULL,
  pinned INTEGER NOT NULL,
  status TEXT NOT NULL,
  tags TEXT NOT NULL,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  occurred_at INTEGER,
  last_accessed_at INTEGER,
  access_count INTEGER NOT NULL DEFAULT 0,
  expires_at INTEGER,
  valid_from INTEGER,
  valid_until INTEGER,
  version INTEGER NOT NULL,
  supersedes TEXT,
  superseded_by TEXT,
  agent_id TEXT,
  source TEXT,
  confidence REAL,
  created_in_session_id TEXT,
  promoted_from_id TEXT,
  compacted_from_ids TEXT NOT NULL,
  source_message_ids TEXT NOT NULL,
  origin TEXT NOT NULL,
  terms INTEGER NOT NULL DEFAULT 0,
  -- Only of conversation turns:
  position INTEGER,
  speaker TEXT,
  role TEXT,
  UNIQUE(scope_id, space, id)
);
CREATE INDEX records_by_time ON records(scope_id, space, status, created_at, seq);
CREATE INDEX records_by_importance ON records(scope_id, space, status, importance, seq);
CREATE INDEX records_by_expiry ON records(expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX records_by_partition ON records(partition_id, status);
CREATE INDEX records_by_position ON records(scope_id, position) WHERE position IS NOT NULL;

CREATE TABLE record_tags(
  scope_id INTEGER NOT NULL, tag TEXT NOT NULL, seq INTEGER NOT NULL REFERENCES records(seq),
  PRIMARY KEY(scope_id, tag, seq)
) WITHOUT ROWID;
CREATE INDEX record_tags_by_record ON record_tags(seq);

-- The keyword leg: which rows hold a term, how often, and how long they are (in terms).
CREATE TABLE postings(
  partition_id INTEGER NOT NULL, term INTEGER NOT NULL, seq INTEGER NOT NULL,
  count INTEGER NOT NULL, length INTEGER NOT NULL,
  PRIMARY KEY(partition_id, term, seq)
) WITHOUT ROWID;

CREATE TABLE vector_spaces(
  id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, model TEXT NOT NULL,
  revision TEXT NOT NULL, dimension INTEGER NOT NULL, in_use INTEGER NOT NULL
);
-- `vector` is little-endian float32; empty when the text held nothing to embed.
CREATE TABLE vectors(
  vector_space_id INTEGER NOT NULL REFERENCES vector_spaces(id),
  seq INTEGER NOT NULL REFERENCES records(seq),
  vector BLOB NOT NULL,
  UNIQUE(seq, vector_space_id)
);

-- Changes the vector index has not confirmed. A newer change of a point replaces the older one and
-- gets a new number, so that confirming the old one cannot hide it.
CREATE TABLE outbox(
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  point_id BLOB NOT NULL UNIQUE,
  seq INTEGER,
  -- Whose row it was: also of a deleted one, which the index may still find.
  owner BLOB NOT NULL,
  space TEXT NOT NULL,
  scope BLOB NOT NULL,
  enqueued_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  retry_at INTEGER NOT NULL DEFAULT 0,
  last_error TEXT
);
CREATE INDEX outbox_by_owner ON outbox(owner, space);

CREATE TABLE sessions(
  scope_id INTEGER PRIMARY KEY REFERENCES scopes(id),
  title TEXT,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  messages INTEGER NOT NULL DEFAULT 0,
  next_position INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE messages(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  scope_id INTEGER NOT NULL REFERENCES sessions(scope_id),
  position INTEGER NOT NULL,
  id TEXT NOT NULL,
  role TEXT NOT NULL,
  text TEXT NOT NULL,
  speaker TEXT,
  tool_calls TEXT NOT NULL,
  tool_call_id TEXT,
  created_at INTEGER NOT NULL,
  agent_id TEXT,
  parent_agent_id TEXT,
  metadata TEXT NOT NULL,
  payload TEXT NOT NULL,
  format TEXT NOT NULL,
  indexed INTEGER,
  UNIQUE(scope_id, position),
  UNIQUE(scope_id, id)
);
CREATE INDEX messages_of_system ON messages(scope_id, position) WHERE role = 'system';
"""

_GIVEN_VECTORS = """
-- The vector space of a partition's rows when it is not that of the memory's own embedder.
ALTER TABLE partitions ADD COLUMN vector_space_id INTEGER REFERENCES vector_spaces(id);
ALTER TABLE outbox ADD COLUMN vector_space_id INTEGER;
"""

_LIFE = """
-- `digest` is shared by records of a scope that may say the same; NULL for what is never merged.
-- Filled by the store, which knows the rule.
ALTER TABLE records ADD COLUMN digest INTEGER;
ALTER TABLE records ADD COLUMN mentions INTEGER NOT NULL DEFAULT 1;
CREATE INDEX records_by_digest ON records(scope_id, digest) WHERE digest IS NOT NULL;

-- What each later version of a memory changed; that it was made, the record itself tells.
CREATE TABLE history(
  seq INTEGER NOT NULL REFERENCES records(seq),
  version INTEGER NOT NULL,
  kind TEXT NOT NULL,
  at INTEGER NOT NULL,
  before TEXT NOT NULL,
  PRIMARY KEY(seq, version)
) WITHOUT ROWID;
"""

_VALUES = """
-- JSON values with versions: `kind` tells a working memory (`notes`) from a run state (`runs`).
CREATE TABLE stored_values(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  scope_id INTEGER NOT NULL REFERENCES scopes(id),
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  label TEXT,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE(scope_id, kind, key)
);
-- The versions before the newest one, as many as are kept.
CREATE TABLE value_versions(
  value_id INTEGER NOT NULL REFERENCES stored_values(id),
  version INTEGER NOT NULL,
  value TEXT NOT NULL,
  label TEXT,
  at INTEGER NOT NULL,
  PRIMARY KEY(value_id, version)
) WITHOUT ROWID;

CREATE INDEX messages_by_agent ON messages(scope_id, agent_id, position) WHERE agent_id IS NOT NULL;
CREATE INDEX messages_by_parent_agent ON messages(scope_id, parent_agent_id, position)
  WHERE parent_agent_id IS NOT NULL;
"""

_SUMMARIES = """
-- The rolling summary of a session: what stands for its messages up to `position`.
CREATE TABLE summaries(
  scope_id INTEGER PRIMARY KEY REFERENCES sessions(scope_id),
  text TEXT NOT NULL,
  position INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
"""

_CHANGES = """
-- The number of the last write transaction, see `tracking`.
CREATE TABLE change_number(number INTEGER NOT NULL);
INSERT INTO change_number VALUES (0);
-- The transaction that last changed what recall can see of a row, its vector included.
ALTER TABLE records ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX records_by_change ON records(partition_id, changed);
-- Of the rows: the last change, the last time that one was taken away, and that all were gone over.
ALTER TABLE partitions ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE partitions ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE partitions ADD COLUMN renewed INTEGER NOT NULL DEFAULT 0;
"""

_DROPPED = """
-- What a merge did not take of what was said the second time.
ALTER TABLE history ADD COLUMN dropped TEXT NOT NULL DEFAULT '{}';
"""

_KEYS = """
-- Which record holds for a key of a scope.
CREATE INDEX records_by_key ON records(scope_id, key) WHERE key IS NOT NULL;
-- Ids of the memories that the same step changed or made, as a JSON list.
ALTER TABLE history ADD COLUMN others TEXT NOT NULL DEFAULT '[]';
"""

_MOVING = """
-- As of records, for exports of what changed since.
ALTER TABLE sessions ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE summaries ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stored_values ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;

-- What was deleted, in digests alone: a deleted user's ids are gone from the file. `owner` is the
-- scope, or of a session its user; `space` is that of a record or the kind of a value.
CREATE TABLE tombstones(
  scope BLOB NOT NULL,
  kind TEXT NOT NULL,
  name BLOB NOT NULL,
  owner BLOB NOT NULL,
  space BLOB NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY(scope, kind, name)
) WITHOUT ROWID;
CREATE INDEX tombstones_by_number ON tombstones(number);
"""

_JOBS = """
-- Periodic work: when each job is due, and who does it just now.
CREATE TABLE jobs(
  name TEXT PRIMARY KEY,
  due_at INTEGER NOT NULL,
  last_run_at INTEGER,
  last_error TEXT,
  holder TEXT,
  leased_until INTEGER
) WITHOUT ROWID;
-- How long the outbox was at the last looks of `doctor`.
CREATE TABLE looks(number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, outbox INTEGER NOT NULL);
"""

_REASONS = """
-- Why a judge decided the change; '' for a change that nobody judged.
ALTER TABLE history ADD COLUMN reason TEXT NOT NULL DEFAULT '';
"""

_RECALLS = """
-- The recall log, off unless it is asked for. `seq` is the row of `records` that was returned.
CREATE TABLE recalls(
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  at INTEGER NOT NULL,
  query TEXT,
  digest TEXT NOT NULL,
  top_k INTEGER NOT NULL,
  types TEXT NOT NULL,
  messages INTEGER NOT NULL,
  repeatable INTEGER NOT NULL
);
-- The scopes that a recall named, of which there need not be a row anywhere else.
CREATE TABLE recall_scopes(
  recall INTEGER NOT NULL REFERENCES recalls(number),
  place INTEGER NOT NULL,
  scope BLOB NOT NULL,
  owner BLOB NOT NULL,
  path TEXT NOT NULL,
  PRIMARY KEY(recall, place)
) WITHOUT ROWID;
CREATE INDEX recall_scopes_by_scope ON recall_scopes(scope);
CREATE INDEX recall_scopes_by_owner ON recall_scopes(owner);
CREATE TABLE recall_hits(
  recall INTEGER NOT NULL REFERENCES recalls(number),
  place INTEGER NOT NULL,
  seq INTEGER NOT NULL REFERENCES records(seq),
  score REAL NOT NULL,
  signals TEXT NOT NULL,
  useful INTEGER,
  PRIMARY KEY(recall, place)
) WITHOUT ROWID;
CREATE INDEX recall_hits_by_record ON recall_hits(seq);
CREATE INDEX tombstones_by_owner ON tombstones(owner);
"""

_SOURCES = """
-- The chunks of a document, which go together.
CREATE INDEX records_by_source ON records(scope_id, space, source) WHERE source IS NOT NULL;
"""

MIGRATIONS: tuple[str, ...] = (
    _FIRST,
    _GIVEN_VECTORS,
    _LIFE,
    _VALUES,
    _SUMMARIES,
    _CHANGES,
    _DROPPED,
    _KEYS,
    _MOVING,
    _JOBS,
    _REASONS,
    _RECALLS,
    _SOURCES,
)
"""Step n brings a file from version n to n + 1. Never edit a released step; append one."""


def version(connection: sqlite3.Connection) -> int:
    """The schema version of the file; 0 when it is empty.

    Raises:
        SchemaError: it is not memkit's, or was written by a newer memkit.
    """
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if owner != APPLICATION_ID and tables:
        raise SchemaError(
            "this SQLite file is not a memkit store; give another path", backend="sqlite", operation="open"
        )
    if found > len(MIGRATIONS):
        raise SchemaError(
            f"the file has schema version {found}, this memkit knows up to {len(MIGRATIONS)}; "
            "run: pip install --upgrade memkit-llm",
            backend="sqlite",
            operation="open",
        )
    return int(found)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the newest version, inside the caller's write transaction."""
    found = version(connection)
    for number, step in enumerate(MIGRATIONS[found:], start=found + 1):
        for statement in _statements(step):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")
    if found == 0:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("INSERT INTO meta VALUES ('store_id', ?)", (uuid.uuid4().hex,))


def _statements(script: str) -> list[str]:
    # `executescript` would commit the surrounding transaction, so statements are run one by one.
    statements, lines = [], []
    for line in script.splitlines():
        lines.append(line)
        if sqlite3.complete_statement("\n".join(lines)):
            statements.append("\n".join(lines))
            lines = []
    return statements
