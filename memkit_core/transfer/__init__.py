"""Moving house: export and import as JSONL, increments, and online backups."""

from memkit_core.transfer.reports import BackupReport, ExportReport, ImportReport, OnError, SkippedLine
from memkit_core.transfer.transfer import Transfer

__all__ = ["BackupReport", "ExportReport", "ImportReport", "OnError", "SkippedLine", "Transfer"]
