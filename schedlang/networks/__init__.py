"""Whole networks: from a graph of many stages to fused parts.

``docs/reference/network-steps.md`` shows the steps on an example. A network is a graph of stages
with arrays for some of its placeholders, the weights. Each step below returns new, frozen data:

1. ``integers.py`` replaces sums of products of quantized values by sums of integers, whose scales
   come after the sum. ``folding.py`` looks for stages that alone read a sum and are affine in it;
   ``affine.py`` splits an expression into scale and shift. A scale of known values that changes
   only along whole dimensions of the weights is multiplied into them, in a new stage.
   ``reciprocals.py`` replaces quotients by known values by products.
2. Rewritings change the form of the graph. ``padding.py`` leaves out the taps of convolutions that
   meet padding alone. ``layouts.py`` chooses blocks of channels, until each blocked tensor has a
   reader of blocks (``blocks.py`` splits axes, ``reading.py`` copies an operation with other
   operands). ``packing.py``, ``scan_weights.py`` and ``dot_products.py`` order weights.
   ``winograd.py`` replaces convolutions, by a rule or in the forms that ``forms.py`` chooses by the
   times in a database. All of them add stages that depend on weights alone.
3. ``ahead.py`` says which tensors depend on weights alone, and ``prepare.py`` puts placeholders in
   place of the largest such stages. From here on all stages have names of their own. ``prepare``
   calls steps 1 and 2, too; ``dividing.py`` takes those that all forms share once.
4. ``dataflow.py`` makes ``Node``s of the stages (a scan with its steps is one) and says what each
   does: a ``product`` reads an operand again and again, a ``copy`` only moves elements.
5. ``grouping.py`` visits the nodes once, producers first. A node joins the part of the operand that
   comes last, so that parts never wait for each other, if the kinds fit and the results that it
   reads may stay inside. They may if all readers up to the post-dominator can be in the part.
   Copies are computed where they are read, and so are floats of bytes that a sum reads.
6. ``overrides.py`` applies the user's cuts and fusions, and ``ordering.py`` sorts the parts.
   ``partition.py`` holds the result, with each part as a computation of its own.
7. ``kernels.py`` schedules the first of all parts that are equal but for names; ``origins.py`` says
   where each schedule comes from.
8. ``linking.py`` makes a call of a kernel for each part, and ``program.py`` one module of the
   calls, as below.

**Values.** ``network.py`` is the public face, and runs these steps when they are first asked for. A
network is three values and a lock. A source (``sources.py``) is a name and a model: a graph that is
given, or one of a folder. A ``Plan`` (``plan.py``) has the choices: the user's options and
overrides, the forms of convolutions, the schedules that were given or saved, and the database of
all others. A ``Compiled`` (``compiled.py``) is made from a source, a target and a plan, and has
what is made of the three so far. Its functions return it with more. The network swaps the whole
value under its lock after each step. So an error or Ctrl-C leaves the network as the last step left
it, and the next call goes on from there. ``rescheduling.py`` and ``tuning.py`` make another plan.

**The cache.** Before any step, ``cache.py`` looks for the network under a digest of its source, its
target and its plan, the machine, schedlang's source and the databases that schedules come from. It
has the data of the module and a hash of the prepared graph; for a model it also has the packed
weights, in a file that is mapped into memory. Other weights are packed again, and ``dividing.py``
makes the parts for this. The module serves these weights, too, if their prepared graph has the same
hash; it may differ, since scales that are not finite are not folded. So ``data.py``, ``memory.py``
and ``module.py``, which a call needs, import neither passes nor the tuner.

**Modules.** The kernels of a network become one module; nothing here schedules.

1. ``program.py`` asks ``roles.py`` what each tensor is: an argument, a parameter, or stored between
   calls. The target decides how kernels are called: linked to one machine nest
   (``linked_calls.py``), or launched by the host (``launched_calls.py``). ``assembly.py`` has what
   both do.
2. ``memory.py`` places the tensors between calls, and the scratch of each call, in one arena, by
   the planner in ``codegen/arena.py``. If their sizes are symbolic, ``sized_memory.py`` does so at
   the sizes of each call, and ``size_checks.py`` checks the kernels that are not proven for all
   sizes.
3. ``machine/link.py`` makes one machine nest: kernels that are equal but for names are the same
   functions, and the entry is a list of views (an array in an array of bytes) and calls. It is
   verified and printed like any other. ``codegen/network_file.py`` prints the file around it. A
   function of the user's is a kernel of its own; all of them have one table, as in a kernel
   (``runtime/extern_table.py``), and ``saved_functions.py`` names them in folders.
4. ``module.py`` is the module of any target. It asks a backend (``backend.py``), which the facts of
   the target name. The backend of a CPU, ``host_backend.py``, checks arguments and runs the entry,
   both like a kernel (``runtime/checked.py``, ``runtime/on_host.py``). ``call.py`` has the memory
   of running calls and packs parameters. ``data.py`` writes all but the text and the parameters as
   JSON values.

For ``target="cuda"`` the calls stay launches. ``launched_calls.py`` prints each program once, with
names that no other one has, and ``codegen/network_cuda_file.py`` prints the functions ``launch``
and ``views``. ``device_backend.py`` checks arguments by the code of GPU kernels
(``runtime/device_call.py``), and ``device_launch.py`` runs these two functions with loaded kernels
and addresses in place of numba's kernels and arrays. ``device_graph.py`` is a call that a stream
recorded. The emulator's kernels are CPU nests, and take the way of a CPU.

Machine code comes from the cache folder as one object. ``runtime/numba_cache.py`` loads it without
preparing numba's compiler, which takes most of the time and the memory of loading. No caller
inlines a kernel, so that the entry stays short for LLVM.
"""
