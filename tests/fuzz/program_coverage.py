"""The features of random NumPy programs, which a run counts, and those that no program has."""

from __future__ import annotations

import re

from tests.fuzz.program_expressions import DTYPES
from tests.fuzz.program_nodes import Program

OP = r" [-+*/%&|]*= "
# an index with slices, without a comparison
SLICED = r"\[[^\]<>=]*(:|\.\.\.|None)[^\]<>=]*\]"
# features by what the source has
SOURCE = {
    "for over a range": r"for \w+ in range",
    "for over rows": r"for .* in (?!range)",
    "loop in a loop": r"\n( +)for .*\n(\1 .*\n)*?\1 +for ",
    "triangular range": r"in range\([^()]*\b[ijkl]\b",
    "while": r"while ",
    "break": r"\bbreak\b",
    "continue": r"\bcontinue\b",
    "else of a loop": r"\n( +)(for|while) .*\n(\1 .*\n)+\1else:",
    "return before the end": r"return .*\n +\S",
    "if": r"\bif .*:\n",
    "view": rf"= \w+(\.T|\.real|\.imag|\.reshape\(|\.ravel\(|{SLICED})\n",
    "write to a view": rf"\n +\w+(\.T|\.ravel\(\)|\.reshape\(.*?\)|\[[^\]]*\])\[[^\]]*\]{OP}",
    "write to an element": rf"\n +\w+\[[^\]:.]*\]{OP}",
    "write to a slice": rf"\n +\w+{SLICED}{OP}",
    "write in place": r"\n +\w+ [-+*/%&|]+= ",
    "write under a mask": r"\n +\w+\[(?!.*\] = .*\[)[^\n]*[<>=]=?[^\n]*\] [-+*]*= |where=",
    "write at indices": r"\n +\w+\[[^\]]*\bg\b[^\]]*\] [-+*]*= |\.at\(",
    "mask": r"\[[^\]]* [<>=]=? [^\]]*\]|np\.where\(",
    "gather": r"(?!\n +)\w+\[[^\]]*\bg\b[^\]]*\]",
    "out=": r"out=",
    "array made inside": r"np\.(zeros|ones|full|eye|arange|linspace|empty|array)",
    "reduction": r"\.(sum|max|min|mean|prod|any|all)\(",
    "product": r" @ |np\.(dot|matmul|einsum|tensordot|outer)\(",
    "call on the host": r"np\.(linalg|sort|fft|unique|percentile|interp|searchsorted)",
    "function": r"\bdef f\d",
    "tuple": r"\bp\d+ = ",
    "one of two arrays": r"= \(?\w+\S* if .* else ",
    "reshape of one of two": r" if .* else .*\)\.(T\.)?(reshape|ravel)\(",
    "attribute": r"\bo\.(v|s|count|parts)\b",
    "method": r"\bo\.(add|scaled)\(",
    "break before the counter": r"\n( +)break\n +k\d+ \+= ",
    "swap": r"\n +(\S+), (\S+) = \2, \1",
}
# features by what f.loops says
LOOPS = {
    "map": r": a map|: a triangular map",
    "reduction in a loop": r": .*a reduction",
    "scan": r": a scan",
    "serial loop": r"serial inside the kernel",
    "loop on the host": r"on the host",
}
ARGUMENTS = {
    "Fortran's order": r"\]F",
    "strided argument": r"apart|reversed",
    "no dimensions": r"\[\]",
    "shared memory": r" of ",
    "number of Python": r"^[\d.]+$",
    "number of NumPy": r"^np\.",
    "one element": r"\[1[\],]",
}
FEATURES = (*SOURCE, *LOOPS, *ARGUMENTS, *DTYPES)


def features_of(program: Program, loops: str) -> set[str]:
    """Return the features of a program whose loops became what ``loops`` says."""
    source, kinds = program.source, list(program.kinds.values())
    present = {name for name, form in SOURCE.items() if re.search(form, source)}
    present |= {name for name, form in LOOPS.items() if re.search(form, loops)}
    present |= {n for n, form in ARGUMENTS.items() if any(re.search(form, k) for k in kinds)}
    names = [*(k.partition("[")[0] for k in kinds), *re.findall(r"dtype='(\w+)'", source)]
    names += re.findall(r"astype\('(\w+)'\)", source)
    return present | {name for name in names if name in DTYPES}
