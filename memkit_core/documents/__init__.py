"""Documents: collections in a space of their own, and recalled records as a framework's documents."""

from memkit_core.documents.building import NewDocument
from memkit_core.documents.chunks import ChunkPlace, chunk_place
from memkit_core.documents.collection import Documents
from memkit_core.documents.metadata import document_metadata
from memkit_core.documents.searching import SearchMode

__all__ = ["ChunkPlace", "Documents", "NewDocument", "SearchMode", "chunk_place", "document_metadata"]
