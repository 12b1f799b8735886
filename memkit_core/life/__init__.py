"""The life of a record: how its status changes, what takes its place, where it is promoted to.

| from | to | by | kind in the history |
|---|---|---|---|
| `pending` | `active` | `Memory.confirm` | confirmed |
| `pending` | `archived` | `Memory.reject` | rejected |
| `active` | `archived` | `Memory.archive` | archived |
| `active` | `superseded` | `Memory.supersede`, `Memory.compact`, `Memory.add(key=)`, `Memory.confirm` | superseded |
| `archived`, `superseded` | `active` | `Memory.restore` | restored |
| any | what it was before | `Memory.undo` | undone |
| any | gone | `Memory.delete` | |

What is asked of a record that is there already changes nothing; all else is an
`InvalidTransitionError`. Each change writes its history and its outbox entry in its own transaction.
"""

from memkit_core.life.life import Life

__all__ = ["Life"]
