"""A kernel saved as a C program: its header, its source, or what the C compiler makes of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schedlang.codegen.c_source import RESERVED
from schedlang.codegen.numba_file import header_lines
from schedlang.codegen.refused_sizes import Refusals
from schedlang.diagnostics.order_hint import order_hints
from schedlang.errors import BuildError, explain
from schedlang.ir.nest import Nest
from schedlang.ir.size_conditions import SizeCondition
from schedlang.machine.loops.strips import register_lanes
from schedlang.machine.nest import MachineNest
from schedlang.runtime.c_library import SECONDS, compile_file, host_name
from schedlang.runtime.c_program import Program, c_program, sealed
from schedlang.runtime.c_toolchain import (
    Toolchain,
    build_line,
    described,
    has_shared_libraries,
    toolchain,
)
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.runtime.kernel import Kernel

# what the compiler makes of a file, by the suffix: its last options
MADE = {".o": ("-c", "-fPIC"), ".a": ("-c", "-fPIC"), ".so": ("-shared", "-fPIC")}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# keywords of C++, where programs include the header
_WORDS = (
    "alignas alignof and bool catch class constexpr delete explicit export false friend mutable "
    "namespace new not nullptr operator or private protected public template this throw true try "
    "typename using virtual xor main NULL"
).split()
# functions of the headers that a C program includes: one that links a function of such a name
# calls it in place of the C library's own
_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 "
    "fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 "
    "log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo "
    "rint round scalbln scalbn sin sinh sqrt tan tanh tgamma trunc"
).split()
_LIBRARY = (
    "abort abs accept access alarm aligned_alloc at_quick_exit atexit atof atoi atol atoll bind "
    "bsearch calloc chdir chmod chown clearerr clock close confstr connect creat ctermid div "
    "dprintf dup dup2 execl execle execlp execv execve execvp exit faccessat fchdir fchmod "
    "fchmodat fchown fchownat fclose fcntl fdatasync fdopen feof ferror fexecve fflush fgetc "
    "fgetpos fgets fileno flockfile fmemopen fopen fork fpathconf fprintf fputc fputs fread free "
    "freopen fscanf fseek fseeko fsetpos fstat fstatat fsync ftell ftello ftruncate ftrylockfile "
    "funlockfile futimens fwrite gamma getc getc_unlocked getchar getchar_unlocked getcwd "
    "getdelim getegid getenv geteuid getgid getgroups gethostname getline getlogin getlogin_r "
    "getopt getpgid getpgrp getpid getppid getsid getsubopt getuid imaxabs imaxdiv index isatty "
    "j0 j1 kill labs lchown ldiv link linkat listen llabs lldiv lseek lstat malloc mblen mbstowcs "
    "mbtowc memchr memcmp memcpy memmove memset mkdir mkdirat mkdtemp mkfifo mkfifoat mkstemp "
    "mlock mlockall mmap mprotect msync munlock munlockall munmap open open_memstream openat "
    "pathconf pause pclose perror pipe popen posix_fadvise posix_fallocate posix_madvise "
    "posix_memalign pread printf putc putc_unlocked putchar putchar_unlocked puts pwrite qsort "
    "quick_exit raise rand rand_r read readlink readlinkat realloc recv remove rename renameat "
    "rewind rindex rmdir scanf select send setbuf setegid setenv seteuid setgid setpgid setsid "
    "setuid setvbuf shm_open shm_unlink signal sleep snprintf socket sprintf srand sscanf stat "
    "stpcpy stpncpy strcat strchr strcmp strcoll strcoll_l strcpy strcspn strdup strerror "
    "strerror_l strerror_r strlen strncat strncmp strncpy strndup strnlen strpbrk strrchr "
    "strsignal strspn strstr strtod strtof strtoimax strtok strtok_r strtol strtold strtoll "
    "strtoul strtoull strtoumax strxfrm strxfrm_l symlink symlinkat sysconf system tcgetpgrp "
    "tcsetpgrp time tmpfile tmpnam truncate ttyname ttyname_r umask ungetc unlink unlinkat "
    "unsetenv usleep utimensat vdprintf vfprintf vfscanf vprintf vscanf vsnprintf vsprintf "
    "vsscanf wait wcstoimax wcstombs wcstoumax wctomb write y0 y1"
).split()
_TAKEN = frozenset(
    (*RESERVED, *_WORDS, *_LIBRARY, *(name + kind for name in _MATH for kind in ("", "f", "l")))
)
_HELPERS = re.compile(r"\w+_t|omp_\w+|run(?:_\w*)?|(?:sl|SL|DL|schedlang)_?\w*")


def is_free(name: str) -> bool:
    """Return whether a function may have a name, which C, C++ and their libraries may not have."""
    # a name in capitals may be a macro, and one that ends with _t a type
    macro = len(name) > 1 and name.upper() == name
    taken = macro or name in _TAKEN or _HELPERS.fullmatch(name)
    return bool(_NAME.fullmatch(name)) and not taken


def save_program(kernel: Kernel, path: Path, conditions: tuple[SizeCondition, ...]) -> Path:
    """Write the C program of ``kernel`` to ``path``, of a suffix in ``C_SUFFIXES``, and return it.

    The header is written beside any other file. ``conditions`` are the sizes that it refuses.
    Raise :class:`~schedlang.errors.BuildError` as :meth:`Kernel.save` says.
    """
    name, asked = path.stem, f"save({str(path)!r})"
    if not is_free(name):
        raise BuildError(
            f"{asked}: the functions of a C program have the name of its file, and {name!r} cannot "
            "be one in C and C++, or is another function's: give another, like blur.c"
        )
    if path.is_dir():
        raise BuildError(f"{asked}: it is a folder; give the path of a file")
    if not path.parent.is_dir():
        raise BuildError(f"{asked}: there is no folder {str(path.parent)!r}; make it first")
    triple = kernel.target.triple
    if path.suffix == ".so" and not has_shared_libraries(triple):
        raise BuildError(
            f"{asked}: {triple} has no libraries that end with .so; save a .o or .a, and link it"
        )
    machine = machine_in_c(kernel, asked)
    program = _program(kernel, machine, name, conditions)
    if path.suffix in MADE:
        _compile(kernel, program, path)
    elif path.suffix == ".c":
        path.write_text(program.source, encoding="utf-8")
    path.with_suffix(".h").write_text(program.header, encoding="utf-8")
    return path


def machine_in_c(kernel: Kernel, asked: str) -> MachineNest:
    """Return the machine nest of a kernel for a C program.

    Raise :class:`~schedlang.errors.BuildError` for a kernel that is not for a CPU, and for one that
    calls a function that is not C source.
    """
    in_c = kernel._built.in_c
    if in_c is None:
        raise BuildError(
            f'{asked}: kernel {kernel.name} is for target="{kernel.target.kind}", and a C program '
            'runs on a CPU: schedule and build it for target="cpu" or "c"'
        )
    machine = in_c()
    for function in machine.called:
        if not function.is_c:
            raise BuildError(
                explain(
                    f"{asked}: kernel {kernel.name}",
                    f"it calls {function.name}, which is not C source, and a C program holds "
                    "nothing else",
                    "Give sl.extern the text of its C source.",
                )
            )
    return machine


def _program(
    kernel: Kernel, machine: MachineNest, name: str, conditions: tuple[SizeCondition, ...]
) -> Program:
    built, nest = kernel._built, kernel.loop_nest
    build = build_line(described(kernel.target), built.fastmath, name)
    # the loops of a function's source have no schedule
    steps = kernel.schedule.as_python() if isinstance(kernel.schedule, Schedule) else ""
    notes = [*order_hints(nest), *dict.fromkeys(_split_vectors(nest, kernel.target))]
    head = header_lines(nest, steps, str(nest), notes, "//")
    refused = (Refusals(f"kernel {kernel.name}", built.signature.given_sizes, conditions),)
    return c_program(
        machine, built.signature, refused * bool(conditions), name, head, build, built.fastmath
    )


def _split_vectors(nest: Nest, target: Target) -> Iterator[str]:
    """Yield a sentence for each vectorized loop of more lanes than a register of a triple has."""
    for loop in nest.loops if target.triple else ():
        if loop.kind != "vectorize" or not isinstance(loop.extent, int):
            continue
        lanes = register_lanes(loop, target)
        if loop.extent > lanes:
            yield (
                f"stage {loop.stage}: vectorize({loop.axis.name}) has {loop.extent} lanes, and a "
                f"register of {target.vector_bytes} bytes has {lanes}: it is split into "
                f"{-(-loop.extent // lanes)} vectors"
            )


def _compile(kernel: Kernel, program: Program, path: Path) -> None:
    """Compile ``program`` in a folder of its own; its source stays there if the compiler fails."""
    tools = toolchain(kernel.target)
    folder = Path(tempfile.mkdtemp(prefix="schedlang-"))
    source = folder / f"{path.stem}.c"
    source.write_text(program.source, encoding="utf-8")
    (folder / f"{path.stem}.h").write_text(program.header, encoding="utf-8")
    output = folder / f"{path.stem}{'.o' if path.suffix == '.a' else path.suffix}"
    options = [*tools.options(kernel._built.fastmath), *MADE[path.suffix]]
    compile_file(tools, source, options, output)
    if path.suffix == ".a":
        _archive(tools, output, path)
    elif path.suffix == ".so":
        content = output.read_bytes()
        # a loader that meets a torn file may end the process
        path.unlink(missing_ok=True)
        path.write_bytes(sealed(content, _processor(kernel.target)))
    else:
        shutil.copyfile(output, path)
    shutil.rmtree(folder, ignore_errors=True)


def _processor(target: Target) -> str:
    """Return the processor of a library, as :func:`load_module` reads it."""
    if not target.triple:
        return host_name()
    return f"{target.triple} {'+'.join([target.cpu, *target.features])}"


def _archive(tools: Toolchain, compiled: Path, path: Path) -> None:
    """Write an archive of one object file."""
    if tools.archiver is None:
        raise BuildError(
            f"save({str(path)!r}): an archive needs ar, of binutils, and there is none on the "
            "path: install it, or save a .o"
        )
    path.unlink(missing_ok=True)
    command: Sequence[str] = [*tools.archiver, "rcs", str(path.absolute()), str(compiled)]
    ran = subprocess.run(command, capture_output=True, timeout=SECONDS)
    if ran.returncode:
        said = ran.stderr.decode(errors="replace").strip()
        raise BuildError(f"save({str(path)!r}): ar fails: {said}")
