"""Operators without a form here, for a reason that a message can give, and what to do instead."""

from __future__ import annotations

_CONTROL = (
    "its body is a graph that data repeat",
    "A computation has one fixed graph: export the model without control flow.",
)
_SORTED = (
    "it sorts, and a nest of loops does not express that",
    "Export the model up to its scores, and sort the result with NumPy.",
)
_SHAPE = (
    "the shape of its result depends on data",
    "Keep the shape, and choose by a condition: Where(condition, x, 0).",
)
_RANDOM = (
    "it draws random numbers, and a network gives equal results for equal inputs",
    "Make them an input of the model.",
)
_LISTS = (
    "it works on sequences or optional values, and only tensors can be computed",
    "Export the model with one tensor for each.",
)
TEXT = ("it works on strings, which have no dtype here", "Prepare the text before the network.")
_QUANTIZED = (
    "a scale that is computed from data has no form here",
    "Quantize the model ahead (onnxruntime.quantization.quantize_static).",
)
_SIGNALS = ("windows of signals have no form here", "Make it an initializer.")
_BOXES = ("regions that data choose have no form here", "Export the model without its detection.")

REASONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("SequenceMap",), _CONTROL),
    **dict.fromkeys(("NonMaxSuppression",), _SORTED),
    **dict.fromkeys(("NonZero", "Unique", "Compress"), _SHAPE),
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli",
         "Multinomial"), _RANDOM,
    ),
    **dict.fromkeys(
        ("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
         "SequenceLength", "SplitToSequence", "ConcatFromSequence", "Optional",
         "OptionalGetElement", "OptionalHasElement", "CastMap", "DictVectorizer"), _LISTS,
    ),
    **dict.fromkeys(
        ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer",
         "CategoryMapper"), TEXT,
    ),
    "MaxUnpool": ("writes at the places of another pooling have no form here", "Use Resize."),
    "DynamicQuantizeLinear": _QUANTIZED,
    **dict.fromkeys(("MelWeightMatrix", "HannWindow", "HammingWindow",
                     "BlackmanWindow"), _SIGNALS),
    **dict.fromkeys(("RoiAlign", "MaxRoiPool", "DeformConv", "AffineGrid"), _BOXES),
    **dict.fromkeys(
        ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "Gradient", "Adam", "Adagrad",
         "Momentum"),
        ("it trains a model", "Export the model for inference."),
    ),
}  # fmt: skip
