"""The patterns that ``python -m tests.wording`` counts: foreign sentences, and plain ones."""

from __future__ import annotations

import pytest

from tests.wording import PATTERNS, PLACES, files, matches

FOREIGN = {
    "that of, those of": ["its peak memory is that of eager PyTorch", "Those of NumPy differ."],
    'a sentence that opens with "Of"': ["It copies. Of a scatter, it makes copies.", "# Of two:"],
    "is no X": ["What is no Python identifier becomes one."],
    "has not": ["a file that has not changed"],
    "a participle first": ["* Refused are operators without a form", "Not counted is the rest."],
    "a trailing as ... does": ["models of PyTorch or ONNX, as a network of layers has it."],
}
PLAIN = [
    "There is no folder, and it is no longer needed.",
    "The operands are refused. One of the two is used, as NumPy says.",
    "If it does not fit, use the size of the cache; it does.",
]


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_matches_foreign_sentences_alone(name: str) -> None:
    for sentence in FOREIGN[name]:
        assert len(list(matches(sentence, PATTERNS[name]))) == 1, sentence
    for sentence in PLAIN:
        assert not list(matches(sentence, PATTERNS[name])), sentence


def test_each_place_has_files() -> None:
    for place in PLACES:
        assert len(files(place)) > 10
