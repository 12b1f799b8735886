"""fastembed's real `TextCrossEncoder`, on a model of a few nodes that is made here: it counts shared words."""

import json

import numpy as np
import pytest

from memkit_core import Memory, Scope

ALICE = Scope.user("alice")
TEXTS = [
    "the kettle is red",
    "a red kettle on a shelf",
    "green tea",
    "my bicycle is blue",
    "the shelf is blue",
]
WORDS = sorted({word for text in TEXTS for word in text.split()} | {"where", "unknown"})


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory):
    """A cross-encoder whose score is how many words of the text are words of the query."""
    fastembed = pytest.importorskip("fastembed.rerank.cross_encoder")
    common = pytest.importorskip("fastembed.common.model_description")
    folder = tmp_path_factory.mktemp("cross")
    write_tokenizer(folder)
    write_model(folder / "model.onnx")
    fastembed.TextCrossEncoder.add_custom_model(
        model="tests/shared-words",
        sources=common.ModelSource(hf="tests/shared-words"),
        model_file="model.onnx",
    )
    return fastembed.TextCrossEncoder("tests/shared-words", specific_model_path=str(folder))


def write_tokenizer(folder):
    """Words as tokens; the query has type 0 and the text type 1, as BERT has it."""
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {word: n for n, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    made.save(str(folder / "tokenizer.json"))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64, "pad_token": "[PAD]"}))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))


def write_model(path):
    """For each pair of positions, one in the query and one in the text: whether they hold the same word."""
    onnx = pytest.importorskip("onnx")
    node, number = onnx.helper.make_node, onnx.TensorProto.INT64
    first_word = onnx.numpy_helper.from_array(np.array(3, np.int64), "last_special")
    axes = [onnx.numpy_helper.from_array(np.array([n], np.int64), f"axis{n}") for n in (1, 2)]
    both = onnx.numpy_helper.from_array(np.array([1, 2], np.int64), "both")
    nodes = [
        node("Greater", ["input_ids", "last_special"], ["is_word"]),
        node("Cast", ["token_type_ids"], ["in_text"], to=onnx.TensorProto.BOOL),
        node("Not", ["in_text"], ["in_query"]),
        node("And", ["is_word", "in_text"], ["text_word"]),
        node("And", ["is_word", "in_query"], ["query_word"]),
        node("Unsqueeze", ["input_ids", "axis1"], ["ids_across"]),
        node("Unsqueeze", ["input_ids", "axis2"], ["ids_down"]),
        node("Equal", ["ids_down", "ids_across"], ["same"]),
        node("Unsqueeze", ["query_word", "axis2"], ["query_down"]),
        node("Unsqueeze", ["text_word", "axis1"], ["text_across"]),
        node("And", ["query_down", "text_across"], ["pairs"]),
        node("And", ["same", "pairs"], ["shared"]),
        node("Cast", ["shared"], ["counts"], to=onnx.TensorProto.FLOAT),
        node("ReduceSum", ["counts", "both"], ["sums"], keepdims=0),
        node("Unsqueeze", ["sums", "axis1"], ["scores"]),
    ]
    shape = ["batch", "tokens"]
    graph = onnx.helper.make_graph(
        nodes,
        "shared-words",
        [onnx.helper.make_tensor_value_info(name, number, shape) for name in ("input_ids", "token_type_ids")],
        [onnx.helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["batch", 1])],
        [first_word, *axes, both],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))


def test_a_real_cross_encoder_reranks(cross_encoder):
    """C4: an object of fastembed's is a reranker as it is; each hit carries its score, and the best comes first."""
    with Memory.open(":memory:") as memory:
        memory.add_many(TEXTS, scope=ALICE)
        found = memory.recall("where is the red kettle", scope=ALICE, top_k=3, reranker=cross_encoder)
    assert found[0].record.content == "the kettle is red"
    scores = [hit.signals.rerank for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert found.missing == frozenset()
    assert list(cross_encoder.rerank("the red kettle", TEXTS)) == [3.0, 2.0, 0.0, 0.0, 1.0]
