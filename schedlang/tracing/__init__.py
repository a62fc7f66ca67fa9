"""Traced functions: ``sl.jit``, ``sl.trace`` and ``sl.fori_loop``.

``jit.py`` makes a specialization (``specialization.py``) for each kind of arguments that a function
is called with; ``arguments.py`` classifies them. ``lengths.py`` decides which lengths of arguments
are symbolic in it, and ``sizes.py`` makes sizes of kernels of these. ``run.py`` runs the user's
function once, on arrays that stand for any values (``array.py``). A trace (``trace.py``) holds the
present value of each array (``storage.py``): views and assignments change it (``memory.py``,
``views.py``, ``strided.py``, ``indexing.py``, ``flat.py``, ``masked.py``, ``ranged.py``,
``updates.py``), and equal calls share a stage (``calls.py``), as do all uses of a scalar of much
work (``scalars.py``). Each call stores what the function stores in containers of the caller
(``containers.py``), and draws random numbers from a generator that is an argument
(``generators.py``); other random numbers are refused (``varying.py``). ``unknown.py`` refuses what
needs the values of elements, ``python_numbers.py`` tells Python's numbers from NumPy's,
``unwritten.py`` reads of elements of ``np.empty`` that nothing was assigned to, and ``wording.py``
has messages in NumPy's words.

The function runs from its source (``source.py``), rewritten (``rewriting.py``, ``names.py``) so
that each loop, branch, test and call goes through ``control.py``, and ``break`` and its like are
flags (``leaving.py``). ``kept.py`` traces the body of a loop once (``carried.py`` tells the dtypes
of its numbers), ``branches.py`` merges the sides of an ``if``, ``conditional.py`` assignments in
them (``choice.py`` says which sides are both computed), and ``called.py`` replaces functions of
Python and NumPy. ``states.py`` has the names that these parts share, and ``spans.py`` the ends
of slices and of loops that depend on lengths and on the indices of loops around. Names that may
have no value where a line reads them get flags (``unassigned.py``), for which calls raise
(``missed_reads.py``), and ``unchanged.py`` undoes changes of objects of Python. ``remarks.py`` says
in the printed nest what each loop became.

The result is a program (``program.py``) of kernels, calls of NumPy on the host and loops, scheduled
by ``scheduling.py``. The package ``serial`` makes one nest of a loop that changes arrays in place,
and of the loops in it. ``host_calls.py`` cuts a computation at the calls, and ``unsized.py`` calls
functions whose results have a length that only the elements tell. A loop without an order becomes a
map or a reduction (``lifted.py``, ``triangular.py``), and one of little work a scan
(``recurrence.py``) or serial inside the kernel; any other runs on the host. Under ``sl.trace``, a
loop that writes an array row by row is a scan of rows (``row_scans.py``). ``repeated.py`` shortens
a loop over one kernel, and ``direct.py`` a call with plain arrays. Names come from the user's
source: ``statements.py`` finds what it assigns, and ``naming.py`` gives these names to stages.
"""
