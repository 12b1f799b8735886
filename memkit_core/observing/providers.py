"""`gen_ai.provider.name`: who makes a model, told by the package it comes from."""

from __future__ import annotations

import re

_LIBRARIES = re.compile(
    r"langchain_(?!core\b|community\b|classic\b)(\w+)|llama_index\.(?:llms|embeddings)\.(\w+)"
)
_OWN = "memkit_core.embedders."
_WELL_KNOWN = {
    "aws": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "google_genai": "gcp.gen_ai",
    "google_vertexai": "gcp.vertex_ai",
    "ibm": "ibm.watsonx.ai",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
}
"""Names of the conventions where the package has another one."""


def provider_of(model: object) -> str | None:
    """The provider of a model object of LangChain, LlamaIndex or memkit itself; None for others."""
    home = type(getattr(model, "wrapped", model)).__module__
    if home.startswith(_OWN):
        return home.removeprefix(_OWN)
    found = _LIBRARIES.match(home)
    if found is None:
        return None
    name = found[1] or found[2]
    return _WELL_KNOWN.get(name, name)
