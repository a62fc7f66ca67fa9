"""Gradients of computations, as computations; the package is ``sl.gradient``.

``reverse.py`` has the function that users call. ``backward.py`` walks from the result back to the
inputs. For each stage it knows the *adjoint* of each output (``adjoint.py``): the gradient with
respect to the output's elements, as a tensor or as an expression.

1. ``reductions.py`` says how much each element of a stage counts: all the same in a sum, the
   winners in a maximum (``weighted.py``), the product of the other factors in a product
   (``product_reductions.py``). ``folds.py`` does so for a custom combiner and for long products, by
   a scan over partial results. The reductions that share a loop are differentiated one by one.
2. ``derivative.py`` goes back through the expression of an element. For each read it makes a *site*
   (``site.py``): the axes of the stage, the indices of the read, the conditions under which it
   counts, and the value that flows back. ``functions.py`` has the derivatives of math functions,
   from sympy; ``algebra.py`` leaves out zeros and ones.
3. Sites of a stage that only copies elements move to what the stage reads (``through`` in
   ``site.py``).
4. ``gather.py`` makes stages from the sites of a tensor, each from a draft (``drafts.py``).
   ``invert.py`` solves "index = element" for the axes of the reader; axes that are left over become
   reduction axes. ``pieces.py`` cuts the tensor where the iterations differ: by residues of
   strides, at points, and at slices. ``ragged.py`` turns conditions that are ranges of ragged axes
   into ranges of the axes that are left; where a monotonic tensor has the ends of ranges, a stage
   numbers them.

**Choices.** A side of a choice that is not chosen adds nothing. Within a stage the condition stays
around what flows back. ``support.py`` carries it to the stages before, which test it before they
multiply with what may be infinite; ``finite.py`` says what cannot be.

**Scans.** ``scans.py`` sees the step of a scan as stages over all rows. It goes back through them
once to find what a row needs of later rows, and builds the step of a scan in reversed time from
these stages.

Nothing here knows an operator by name: the gradient of a convolution is what the inverse of
``y*stride + i`` leaves. Where only data tell which iterations read an element, ``scattered.py``
makes a scatter. ``rules.py`` takes the user's own derivatives; ``host_rules.py`` has derivatives of
calls of NumPy on the host, such as solvers. ``jacobian.py`` is te's form.
"""

from schedlang.callable_module import make_callable
from schedlang.gradient.reverse import gradient

__all__ = ["gradient"]

make_callable(__name__, gradient)
