"""Piecewise polynomials for erf and tanh, whose coefficients wait in registers (AVX-512).

A piece is found and its coefficients are chosen by the low bits of a rounded number, as in Tang,
"Table-driven implementation of the exponential function" (ACM TOMS, 1989). The polynomials are
minimax fits to erf(x) / x and tanh(x) / x, weighted by the inverse of these, around 16 centres at
equal distances from 0 on. They were computed for this file in float64, and rounded to float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from schedlang.intrinsics.elementary import absolute, copysign, fma, select
from schedlang.intrinsics.simd import Vec, element, llvm_type, with_element
from schedlang.intrinsics.transposed import joined, shuffled

# compiled as a kernel is, for scalars and for vectors
COMPILED = ("erf_table_single", "tanh_table_single")
# the distance of the centres, its inverse, and where the last piece ends
ERF_STEP = np.float32(0.265)
ERF_RATE = np.float32(1 / 0.265)
ERF_END = np.float32(4.1)
TANH_STEP = np.float32(0.6)
TANH_RATE = np.float32(1 / 0.6)
TANH_END = np.float32(9.25)
# adding it rounds a float32 to a whole number, which is then in its low bits
ROUNDED = np.float32(12582912.0)
# the coefficients of the pieces, from the highest power on
ERF = (
    (-3.4592395e-11, -0.037247997, -0.049497183, -0.033491794, -0.0065480983, 0.012433624,
     0.017135771, 0.012541523, 0.006023418, 0.0015618252, -0.00040800407, -0.0008797501,
     -0.0007741354, -0.00055639143, -0.00037607428, -0.00025260344),
    (0.11213284, 0.08582237, 0.02491699, -0.03250571, -0.059117917, -0.053774178, -0.032770254,
     -0.012514526, -0.0002874968, 0.0044516674, 0.0049949307, 0.00403828, 0.0029131256,
     0.0020312262, 0.0014195386, 0.0010084527),
    (6.543431e-13, 0.10997907, 0.17032918, 0.16412307, 0.1118986, 0.049495384, 0.0030009535,
     -0.020368503, -0.026268506, -0.023459818, -0.018189596, -0.013340061, -0.009670807,
     -0.0070798523, -0.005275248, -0.0040050107),
    (-0.37612176, -0.33051676, -0.214732, -0.07769481, 0.033893645, 0.09763589, 0.11699302,
     0.10865246, 0.08925768, 0.06916511, 0.052576847, 0.040113553, 0.031046469, 0.024450017,
     0.019581666, 0.015921496),
    (-2.4349154e-15, -0.19115436, -0.33777523, -0.41503587, -0.42478517, -0.38772178, -0.32920858,
     -0.2685962, -0.21594872, -0.17406924, -0.14199439, -0.1176021, -0.09887343, -0.08425764,
     -0.072652444, -0.0632886),
    (1.1283791, 1.102513, 1.0310644, 0.92970335, 0.8171166, 0.7087144, 0.61349815, 0.53439003,
     0.4704168, 0.41897535, 0.37729114, 0.34304032, 0.31446326, 0.29027545, 0.26954174,
     0.25157234),
)  # fmt: skip
TANH = (
    (-0.050221704, 0.025670543, 0.0019694616, -0.0026939285, -0.00064043084, -5.9672573e-05,
     2.2568449e-05, 2.0370471e-05, 1.17060035e-05, 6.185131e-06, 3.2551666e-06, 1.7540233e-06,
     9.774535e-07, 5.6476074e-07, 3.3801277e-07, 2.0903931e-07),
    (5.202825e-13, -0.04517856, 0.014106869, 0.006360521, 0.0007898359, -0.00019628221,
     -0.0002092474, -0.00012550577, -6.834948e-05, -3.7074133e-05, -2.0638798e-05, -1.1910326e-05,
     -7.138212e-06, -4.435421e-06, -2.8484326e-06, -1.8840999e-06),
    (0.13312589, -0.023473665, -0.04184536, -0.00708787, 0.001513161, 0.001831122, 0.001143888,
     0.0006447416, 0.00036281795, 0.00021026247, 0.00012664573, 7.933367e-05, 5.154291e-05,
     3.4598208e-05, 2.3900962e-05, 1.6932216e-05),
    (-2.994039e-14, 0.15867838, 0.04302664, -0.009780642, -0.013219233, -0.008668752,
     -0.0051014964, -0.0030066248, -0.0018317221, -0.0011626044, -0.00076806475, -0.0005260694,
     -0.00037185205, -0.00027008986, -0.00020083551, -0.00015241026),
    (-0.33332962, -0.12718792, 0.058718704, 0.07591228, 0.052261885, 0.03248523, 0.020344337,
     0.013226458, 0.008972838, 0.0063324906, 0.0046247933, 0.0034770046, 0.0026788278,
     0.0021071525, 0.0016871555, 0.0013717344),
    (-6.24438e-16, -0.30584103, -0.32474387, -0.23469159, -0.15728362, -0.107272945, -0.076217055,
     -0.056449786, -0.043340463, -0.03427704, -0.027773337, -0.022955634, -0.019289792,
     -0.016436461, -0.014172309, -0.012345671),
    (1.0, 0.8950826, 0.69471216, 0.5260033, 0.40986452, 0.33168492, 0.2773633, 0.23798817,
     0.2083051, 0.18517762, 0.16666462, 0.15151459, 0.13888873, 0.12820508, 0.119047605,
     0.111111104),
)  # fmt: skip
# the pieces, which are as many as the lanes of a vector
PIECES = 16
TABLES = {"erf": ERF, "tanh": TANH}


def has_tables(ty: types.Type) -> bool:
    """Return whether `ty` looks up coefficients: float32, on a processor with AVX-512.

    Its scalars do, too, since a lane rounds like a scalar.
    """
    features = cpu_target.target_context.codegen().magic_tuple()[2]
    return element(ty) == types.float32 and "+avx512f" in features.split(",")


@intrinsic
def coefficient(typingctx: Any, table: Any, k: Any, shifted: Any) -> Any:
    """Return the `k`-th coefficients of the pieces whose numbers are the low bits of `shifted`.

    `table` and `k` are literals.
    """
    if not isinstance(table, types.StringLiteral) or not isinstance(k, types.IntegerLiteral):
        return None
    values = TABLES[table.literal_value][k.literal_value]
    whole = with_element(shifted, types.int32)

    def loaded(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        kind = ir.ArrayType(ir.FloatType(), PIECES)
        label = f"{table.literal_value}.coefficients.{k.literal_value}"
        known = builder.module.globals.get(label)
        if known is None:
            known = ir.GlobalVariable(builder.module, kind, label)
            known.linkage, known.global_constant = "internal", True
            known.initializer = ir.Constant(kind, list(values))
        bits = builder.bitcast(args[2], ir.IntType(32))
        at = builder.and_(bits, ir.Constant(ir.IntType(32), PIECES - 1))
        return builder.load(builder.gep(known, [ir.Constant(ir.IntType(32), 0), at]))

    def permuted(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        wide = ir.VectorType(ir.FloatType(), PIECES)
        places = ir.VectorType(ir.IntType(32), PIECES)
        name = "llvm.x86.avx512.permvar.sf.512"
        function = builder.module.globals.get(name)
        if function is None:
            kind = ir.FunctionType(wide, [wide, places])
            function = ir.Function(builder.module, kind, name)
        at = builder.bitcast(args[2], llvm_type(whole))
        undefined = ir.Constant(at.type, ir.Undefined)
        parts = []
        for start in range(0, shifted.lanes, PIECES):
            order = [min(start + lane, shifted.lanes) for lane in range(PIECES)]
            own = shuffled(builder, at, undefined, order)
            parts.append(builder.call(function, [ir.Constant(wide, list(values)), own]))
        return joined(builder, parts, shifted.lanes)

    return shifted(table, k, shifted), permuted if isinstance(shifted, Vec) else loaded


def erf_table_single(x: Any) -> Any:
    """Return erf(x), of at most 1."""
    size = absolute(x)
    size = select(size > ERF_END, ERF_END, size)
    shifted = fma(size, ERF_RATE, ROUNDED)
    t = fma(shifted - ROUNDED, -ERF_STEP, size)
    p = fma(coefficient("erf", 0, shifted), t, coefficient("erf", 1, shifted))
    p = fma(p, t, coefficient("erf", 2, shifted))
    p = fma(p, t, coefficient("erf", 3, shifted))
    p = fma(p, t, coefficient("erf", 4, shifted))
    return copysign(fma(size, coefficient("erf", 5, shifted), size * t * p), x)


def tanh_table_single(x: Any) -> Any:
    """Return tanh(x), of at most 1."""
    size = absolute(x)
    size = select(size > TANH_END, TANH_END, size)
    shifted = fma(size, TANH_RATE, ROUNDED)
    t = fma(shifted - ROUNDED, -TANH_STEP, size)
    p = fma(coefficient("tanh", 0, shifted), t, coefficient("tanh", 1, shifted))
    p = fma(p, t, coefficient("tanh", 2, shifted))
    p = fma(p, t, coefficient("tanh", 3, shifted))
    p = fma(p, t, coefficient("tanh", 4, shifted))
    p = fma(p, t, coefficient("tanh", 5, shifted))
    return copysign(fma(size, coefficient("tanh", 6, shifted), size * t * p), x)
