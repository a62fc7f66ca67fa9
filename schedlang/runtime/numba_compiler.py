"""numba's compiler, quicker on the functions of an emitted file.

The file of a kernel says nothing of this: compiled by ``numba.njit`` alone it computes the same, as
a saved kernel does. Most of numba's time goes into many small calls, and into code that it compiles
several times. So here

* the signature of each kind of call is looked up once, not twice for each call;
* a function that several equal loops share is compiled once, and no caller inlines it;
* a parallel loop is launched without numba's pass for such loops (:mod:`.numba_parallel`);
* a function that only others of the file call gets no machine code of its own: LLVM optimizes it in
  its callers;
* passes without work in a kernel are left out, as are counts of references in a function that
  allocates nothing, and wrappers for calls from C.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

from numba import jit, njit, types

from schedlang.codegen.listing import PARALLEL_FOR, Launch
from schedlang.runtime.numba_cache import KernelCache
from schedlang.runtime.numba_internals import (
    CompilerBase,
    CPUDispatcher,
    DefaultPassBuilder,
    InlineClosureLikes,
    InlineInlinables,
    InlineOverloads,
    JITCodeLibrary,
    LiteralUnroll,
    Lower,
    NativeLowering,
    WithLifting,
    compiled_by_types,
    register_pass,
)
from schedlang.runtime.numba_parallel import define, start_threads

# passes for what no kernel has: with blocks, closures, functions to inline, loops over tuples
WITHOUT = frozenset(
    {InlineClosureLikes, InlineInlinables, InlineOverloads, LiteralUnroll, WithLifting}
)
# what allocates memory, whose references numba counts
ALLOCATING = "heap_array"
# the name in a file of what gives its parts their compilers; the file's own names do not start so
PARTS = "__give_parts_compilers"


class _Remembering:
    """numba's typing context, which looks up the signature of each kind of call once."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._found: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call of ``func``, a type of numba, with arguments of types."""
        if kws or not isinstance(func, (types.Function, types.Dispatcher)):
            return self._context.resolve_function_type(func, args, kws)
        key = func, _without_values(func, args)
        signature = self._found.get(key)
        if signature is None:
            signature = self._context.resolve_function_type(func, args, kws)
            self._found[key] = signature
        return signature


def _without_values(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return ``args`` without the values of literals where the result cannot depend on them."""
    if isinstance(func, types.Dispatcher) or any(t.prefer_literal for t in func.templates):
        return args
    plain = tuple(types.unliteral(a) for a in args)
    # a vector and a literal have an operator that a vector and an integer lack
    return plain if all(isinstance(a, types.Number) for a in plain) else args


class KernelCompiler(CompilerBase):
    """numba's compiler for the function of an emitted file that a kernel calls."""

    def __init__(
        self,
        typingctx: Any,
        targetctx: Any,
        library: Any,
        args: Any,
        return_type: Any,
        flags: Any,
        locals: Any,  # noqa: A002
    ) -> None:
        flags = flags.copy()
        flags.no_cfunc_wrapper = flags.no_rewrites = True
        remembering = _Remembering(typingctx)
        super().__init__(remembering, targetctx, library, args, return_type, flags, locals)

    def compile_extra(self, func: Any) -> Any:
        """Compile a Python function, like numba's own method."""
        give_parts_compilers = func.__globals__.pop(PARTS, None)
        if give_parts_compilers is not None:
            give_parts_compilers()
        if PARALLEL_FOR in func.__globals__:
            # the file has a parallel loop; this runs when numba loads the machine code
            self.state.reload_init.append(start_threads)
        return super().compile_extra(func)

    def define_pipelines(self) -> list[Any]:
        """Return numba's pipeline without the passes that have no work in a kernel."""
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        if not self.state.flags.auto_parallel.enabled:
            manager.passes = [entry for entry in manager.passes if entry[0] not in WITHOUT]
            manager.finalize()
        return [manager]


class PartCompiler(KernelCompiler):
    """The compiler for a function that others of its file call, which they are compiled with."""

    def __init__(
        self,
        typingctx: Any,
        targetctx: Any,
        library: Any,
        args: Any,
        return_type: Any,
        flags: Any,
        locals: Any,  # noqa: A002
    ) -> None:
        flags = flags.copy()
        flags.no_cpython_wrapper = True
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)
        self.state.targetctx = _WithoutExecutable(self.state.targetctx)

    def compile_extra(self, func: Any) -> Any:
        """Compile a Python function to LLVM's code alone."""
        self.state.library = _Part(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


class _Part(JITCodeLibrary):
    """LLVM's code of a function, which is optimized as a part of its callers."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _WithoutExecutable:
    """numba's target context for functions that Python does not call."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Any:
        """Return what a call from Python runs: it raises, since there is no machine code.

        numba knows a function by this object, so each has its own.
        """
        refused = compiled_by_types(_refusal())[()]
        return self._context.get_executable(refused.library, refused.fndesc, refused.environment)


@lru_cache(maxsize=1)
def _refusal() -> Any:
    """Return a compiled function that refuses to be called."""

    @njit("()")
    def refused() -> None:
        raise TypeError("only the kernel of this file can call its other functions")

    return refused


class _CalledLower(Lower):
    """numba's generation of LLVM's code, for a function that no caller inlines."""

    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        self.function.attributes.add("noinline")


@register_pass(mutates_CFG=True, analysis_only=False)
class _CalledLowering(NativeLowering):
    """The pass that generates code by ``_CalledLower``."""

    _name = "native_lowering_of_called_functions"
    lowering_class = _CalledLower


class SharedCompiler(PartCompiler):
    """The compiler for a function that equal loops share: LLVM compiles it once, too."""

    def define_pipelines(self) -> list[Any]:
        """Return the pipeline of kernels, which lets no caller inline the function."""
        (manager,) = super().define_pipelines()
        manager.passes = [
            (_CalledLowering, text) if pass_class is NativeLowering else (pass_class, text)
            for pass_class, text in manager.passes
        ]
        return [manager]


def quicken(
    module: ModuleType, entry: str, called: Collection[str] = (), launches: Sequence[Launch] = ()
) -> None:
    """Give the compiled functions of an emitted file, as loaded, these compilers.

    ``entry`` is the name of the function that its kernel calls. No caller inlines the functions
    ``called``, and ``launches`` take the place of functions with parallel loops. All but the entry
    get their compilers when it is compiled: a process that loads its machine code from numba's
    cache on disk does without them.
    """
    functions = {
        name: function
        for name, function in vars(module).items()
        if isinstance(function, CPUDispatcher) and function.__module__ == module.__name__
    }
    kernel = functions.pop(entry)
    launched = {launch.name: launch for launch in launches}
    setattr(module, entry, _with_compiler(KernelCompiler, kernel, module, launched))

    def give_parts_compilers() -> None:
        # a function may have several names: equal loops share one
        times = Counter(functions.values())
        replacements: dict[Any, Any] = {}
        for name, function in functions.items():
            if function not in replacements:
                shared = times[function] > 1 or name in called
                compiler = SharedCompiler if shared else PartCompiler
                replacements[function] = _with_compiler(compiler, function, module, launched)
            setattr(module, name, replacements[function])

    vars(module)[PARTS] = give_parts_compilers


def _with_compiler(
    compiler: type[KernelCompiler],
    function: Any,
    module: ModuleType,
    launched: Mapping[str, Launch],
) -> Any:
    """Return ``function`` of numba with another compiler; a kernel's compiler keeps its results."""
    options = {**function.targetoptions, "pipeline_class": compiler}
    python = function.py_func
    launch = launched.get(python.__name__) if options.get("parallel") else None
    if launch is not None:
        options["parallel"] = False
        if launch.team:
            part = {**options, "pipeline_class": PartCompiler}
            setattr(module, launch.team, _jitted(define(launch, module, by_team=True), part))
        python = define(launch, module)
    return _jitted(python, options, cache=compiler is KernelCompiler)


def _jitted(python: Any, options: dict[str, Any], cache: bool = False) -> Any:
    """Return a function of Python, compiled by numba with ``options``."""
    # set, since numba takes over what is not set from the caller's options
    options["_nrt"] = options.get("parallel", False) or ALLOCATING in python.__code__.co_names
    dispatcher = jit(**options)(python)
    if cache:
        dispatcher._cache = KernelCache(python)
    return dispatcher
