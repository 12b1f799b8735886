"""Vector indexes: derived from the record store, rebuildable from it at any time."""
