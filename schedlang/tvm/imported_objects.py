"""LLVM's code of the pragma ``import_llvm``, as an object that the C compiler links."""

from __future__ import annotations

from functools import lru_cache

from schedlang.errors import BuildError, explain


@lru_cache(maxsize=32)
def object_of(text: str) -> bytes:
    """Return the object of a module that LLVM's code describes, for this processor.

    Raise :class:`~schedlang.errors.BuildError` for what LLVM cannot read.
    """
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()
    try:
        module = binding.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise BuildError(
            explain(
                "the pragma 'import_llvm'",
                "LLVM cannot read its code",
                f"It says: {str(error).splitlines()[0]}\nAnother version of LLVM may have written "
                "it; 'import_c' takes the source.",
            )
        ) from None
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(),
        opt=3, reloc="pic",
    )  # fmt: skip
    return bytes(machine.emit_object(module))
