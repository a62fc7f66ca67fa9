"""The forms of random NumPy programs: lines and expressions over names, for ``str.format``."""

from __future__ import annotations


def forms(text: str) -> list[str]:
    """Return forms that semicolons divide."""
    return [" ".join(form.split()) for form in text.split(";")]


UNARY = forms("""
    -{0}; np.abs({0}); {0} * 0.5; {0} + 1; 2 - {0}; {0} ** 2; np.square({0}); np.sign({0});
    np.floor({0}); np.clip({0}, -1, 2); np.clip({0}, None, 1); {0} // 2; {0} % 3;
    np.negative({0}); np.where({0} > 0, {0}, 0); np.where({0} > 1, 0.5, {0}); np.maximum({0}, 0);
    np.minimum({0}, 1.5); {0}.copy(); np.copy({0}); {0}.conj(); np.roll({0}, 1); np.cumsum({0});
    np.cumsum({0}, axis=-1); np.diff({0}); np.maximum.accumulate({0}); np.sqrt(np.abs({0}));
    np.tanh({0}); np.exp(-np.abs({0})); np.sin({0}); 1 / (np.abs({0}) + 1); np.sort({0}, axis=-1);
    np.argsort({0}, kind='stable'); np.round({0}); np.isfinite({0}); np.concatenate([{0}, {0}]);
    np.stack([{0}, {0} + 1]); np.repeat({0}, 2, axis=0); np.tile({0}, 2); np.pad({0}, 1);
    np.outer({0}, {0}); np.tril({0}); np.triu({0}, 1); np.nan_to_num({0}); +{0}; ~{0}; {0} & 3;
    {0} << 1; scaled({0}, 0.5); np.take({0}, [0, -1], axis=0); np.append({0}, 1); np.insert({0},
    0, 1); np.convolve({0}, [1, 2]); np.angle({0} + 0j); np.heaviside({0}, 0.5); np.hypot({0}, 1);
    np.float32(2) * {0}; {0} * np.float64(0.5); np.int64(3) + {0}; divmod({0}, 2)[1]
""")
BINARY = forms("""
    {0} + {1}; {0} - {1}; {0} * {1}; np.maximum({0}, {1}); np.minimum({0}, {1}); np.where({0} >
    {1}, {0}, {1}); np.where({0} < {1}, {1}, 0); {0} * 0.5 + {1} * 0.25; {0} / (np.abs({1}) + 1);
    np.add({0}, {1}); np.subtract({1}, {0}); {0} // ({1} ** 2 + 1); np.add.outer({0}, {1});
    np.where({1} == 1, {0}, -{0}); {0} & {1}; {0} | {1}; {0} ^ {1}; np.logical_and({0} > 0, {1} >
    0); np.hypot({0}, {1}); {0} % (np.abs({1}) + 1); np.add({0}, {1}, dtype='float64');
    np.multiply({0}, {1}, where={0} > 0, out=np.zeros_like({0})); np.select([{0} > 1, {1} > 1],
    [{0}, {1}], 0); np.choose(({0} > 0).astype(int), [{0}, {1}]); np.copysign({0}, {1});
    np.fmax({0}, {1}); np.arctan2({0}, {1})
""")
PRODUCTS = forms("""
    {0} @ {1}; np.dot({0}, {1}); np.inner({0}, {1}); np.matmul({0}, {1}.T); {0}.T @ {1};
    np.einsum('ij,j->i', {0}, {1}); np.einsum('i,i->', {0}, {1}); np.outer({0}, {1});
    np.einsum('ij,kj->ik', {0}, {1}); np.tensordot({0}, {1}, axes=1); np.vdot({0}, {1});
    np.kron({0}, {1}); np.cross({0}, {1})
""")
REDUCTIONS = forms("""
    {0}.sum({a}); np.sum({0}, {a}); {0}.max({a}); np.min({0}, {a}); {0}.mean({a}); np.prod({0} *
    0.5, {a}); ({0} > 0).any({a}); np.all({0} > -1, {a}); {0}.argmax({i}); np.argmin({0}, {i});
    np.count_nonzero({0} > 0, {i}); {0}.std({a}); np.var({0}, {a}); np.sum({0}, {a}, where={0} >
    0); np.ptp({0}, {i}); np.max({0}, {a}, initial=0); np.median({0}, {i}); np.linalg.norm({0});
    np.add.reduce({0}, {i}); np.sum({0}, dtype='float64'); np.nansum({0}, {i}); np.average({0},
    {i}); np.mean({0}, {a}, where={0} > -1); np.min({0}, {a}, initial=9, where={0} > 0);
    np.any({0} > 0, {a}, where={0} < 1); {0}.sum(axis=(0, 1)); np.prod({0} * 0.5, {a}, where={0} >
    1); np.max({0}, axis=(0, -1), keepdims=True); {0}.cumsum({i}); np.var({0}, {a}, ddof=1);
    np.sum({0}, axis=(0, 2)); np.multiply.reduce({0} * 0.5, {i}); {0}.argmin({a})
""")
HOST = forms("""
    np.linalg.solve({m} @ {m}.T + 9 * np.eye(len({m})), {m}); np.linalg.inv(np.eye(len({m})) * 9 +
    0.5); np.linalg.cholesky({m} @ {m}.T + 9 * np.eye(len({m}))); np.sort({v});
    np.unique({v}).sum(); np.searchsorted(np.sort({v}), {v}); np.linalg.det(np.eye(len({m})) * 3);
    np.percentile({v}, 50); np.interp({v}, [0, 1, 2], [1, 3, 2]); np.bincount({x} % 4,
    minlength=4); np.fft.fft({v})
""")
RESHAPES = forms("""
    {0}.T; {0}.ravel(); {0}.reshape(-1); {0}.reshape(-1, 1); {0}.reshape({0}.shape[::-1]);
    {0}.flatten(); {0}.swapaxes(0, 1); np.moveaxis({0}, 0, -1); {0}[::-1]; {0}[..., ::-1];
    np.flip({0}); np.diagonal({0}); np.diag({0}); {0}[None]; {0}[:, None]; {0}[..., None];
    np.expand_dims({0}, 0); np.squeeze({0}); {0}[1:]; {0}[:-1]; {0}[::2]; {0}[1::2]; {0}[:, 1:];
    {0}[:, ::2]; {0}[1:, :-1]; {0}[..., 0]; {0}[0]; {0}[-1]; {0}[:, -1]; {0}[-2::-1]; {0}[:,
    ::-1]; {0}[:2]; np.atleast_2d({0}); np.rot90({0}); np.einsum('ii->i', {0}); np.split({0},
    [1])[1]; {0}.real; {0}.imag; {0}[...]; {0}.transpose(1, 0); np.broadcast_to({0}, (2,
    *{0}.shape)); np.fliplr({0}); np.array_split({0}, 2)[0]; {0}.reshape(2, -1);
    {0}.T.reshape(-1); {0}[::2].ravel(); np.trace({0}) + {0}; {0}.view(); np.asarray({0});
    {0}.squeeze(); np.ascontiguousarray({0}); {0}[::-2]; {0}[:0:-1]; {0}[-1:1:-2]; {0}[:, ::-2];
    {0}[::-1, ::2]; {0}[1:][::-1]; {0}.T[1:]; {0}[::-1].T; {0}[1:-1, 1:-1]; {0}[::-1][1:][::2];
    np.lib.stride_tricks.sliding_window_view({0}, 2); {0}.reshape(-1, 2); {0}.T.reshape(-1, 1);
    {0}[..., None, :]; {0}.reshape({0}.size // 3, 3)[::-1]
""")
TWO_NUMBERS = forms("""
    {0} + {1}; {0} - {1}; {0} * {1}; {0} * 0.5 + {1} * 0.25; max({0}, {1}); min({0}, {1});
    abs({0}); np.maximum({0}, {1}); capped({0}); {0} / 2; -{0}; np.abs({0}); {0} ** 2; float({0});
    np.sqrt(abs({0})); int({0}); np.greater({0}, {1}) + np.less({0}, 1); ({0} > {1}) + ({0} < 1);
    np.logical_or({0}, {1}) * 0.5; (not {0} > {1}) + np.isfinite({0}); ({0} > 0) + np.less({1}, 1)
""")
MASKS = forms("""
    {0} > 0; {0} < 1; {0} == 1; ({0} > 0) & ({0} < 2); ~({0} > 0.5); np.abs({0}) >= 1
""")
GATHERS = forms("""
    {0}[{1}]; {0}[:, {1}]; {0}[{1}, 0]; {0}[{1}, {2}]; {0}[{1}][{2}]; np.take({0}, {1}, axis=-1);
    {0}[[0, -1]]; {0}[{1}[:, None], {2}]; {0}[0, {1}]; {0}[{1}[0]]
""")
SUMS = forms("""
    {0}.sum(); np.max({0}); {0}.min(); np.sum({0}); {0}.mean()
""")
MASKED = forms("""
    {0}[{1}].sum(); np.where({1}, {0}, 0); {0}[{1}].max(initial=0); np.where({1}, {0}, {0}[::-1]);
    {0}[{1}].mean(); {0}[{1}]; np.mean({0}[{1}]); np.flatnonzero({1}).sum()
""")
ARITHMETIC = forms("""
    {0} + {1}; {0} * 0.5 + {1}; {0} - {1} * 0.25; np.maximum({0}, {1}); np.where({0} > {1}, {1},
    {0}); 0.5 * ({0} + {1}); {0} * 2; 1 - {0}; np.abs({0}) + {1}; {0} * {2} + {1}
""")
GATHERED_WRITES = forms("""
    {0}[{1}] += {2}; {0}[{1}] = {2}; np.add.at({0}, {1}, {2}); {0}[:, {1}] = {2}; {0}[{1}, 0] =
    {2}; {0}[{1}, {1}] += {2}; {0}[[0, 1]] = {2}; {0}[{1}[0]] = {2}; np.maximum.at({0}, {1}, {2})
""")
OUT = forms("""
    np.add({0}, {1}, out={2}); np.multiply({0}, {1}, out={2}); np.maximum({0}, {1}, out={2});
    np.negative({0}, out={2}); np.sum({0}, axis=0, out={2}); np.cumsum({0}, axis=-1, out={2});
    np.subtract({0}, {1}, out={2}, where={0} > 0); np.clip({0}, -1, 1, out={2}); np.matmul({0},
    {1}, out={2}); np.add({0}, {1}, out={2}[::-1]); np.add({0}, {0}[::-1], out={0});
    np.sqrt(np.abs({0}), out={2}); np.max({0}, axis=-1, out={2}); np.mean({0}, axis=0,
    out={2}[0]); np.sum({0}, axis=0, keepdims=True, out={2}[:1]); np.cumsum({0}, out={2});
    np.cumsum({0}, axis=0, out={2}.T); np.multiply({0}, {1}, out={2}, where={2} > 0);
    np.add.accumulate({0}, out={2}); np.dot({0}, {1}, out={2}); np.add.outer({0}, {1}, out={2});
    np.minimum({0}, {1}, out={2}[..., ::-1]); np.round({0}, out={2}); np.any({0} > 0, axis=0,
    out={2})
""")
WHOLE = forms("""
    {0}[...] = {1}; {0}[:] = {1}; {0}.fill({2}); np.copyto({0}, {1}); np.copyto({0}, {2},
    where={3}); np.fill_diagonal({0}, {2}); {0}.flat[::2] = {2}; {0}.flat = {2}; {0}.real = {2};
    {0}.imag[0] = {2}; {0}.sort(); {0}.T[...] += {2}; {0}[:, :] = {0}.T; {0}[1:] = {0}[:-1];
    {0}[:-1] += {0}[1:]; {0}[::-1] += {0}; {0}.ravel()[1] = {2}; {0}.shape = (-1,);
    np.einsum('ii->i', {0})[:] += {2}; {0}[::-1][1:] += {2}; {0}[1:][::-1] = {0}[:-1];
    {0}.T[::-1][0] = {2}; {0}[::2] *= {2}; {0}[..., ::-1] = {0}; {0}.T[1:] -= {0}.T[:-1];
    {0}[1:-1, 1:-1] = 0.25 * ({0}[:-2, 1:-1] + {0}[2:, 1:-1]); {0}[:0:-1] += {0}[1:];
    {0}[1:][{0}[1:] > 0] = {2}; {0}.T.flat[1] = {2}; {0}[-1:1:-2] = {2}; {0}[...] += {0}[::-1]
""")
CALLS = forms("""
    bump({0}); bump({0}[1:]); {1} = double_ends({0}); {1} = longer({0}, {2}); {1} = total({0});
    {1} = running({0}, {2}); {1}, s, {1}r = ends({0}); double_ends({0}[::-1]); {1} = scaled({0},
    {3}); bump({0}.T)
""")
SWAPS = forms("""
    {0}, {1} = {1}, {0}; {0} = {1}; {0}[:], {1}[:] = {1}, {0}; {0}[0], {0}[-1] = {0}[-1], {0}[0];
    {0}, s = {1} + 0, {2}
""")
NUMBER_WRITES = forms("""
    {0} += {1}; {0} += {1}; {0} = {1}; {0} = max({0}, {1}); {0} -= {1}; {0} = {0} * 0.5 + {1}; {0}
    *= 0.5
""")
# a name of one of two arrays of alike shapes, under a test, and with a length
CHOSEN = forms("""
    {0} = {1} if {3} else {2}; {0} = {1}.T if {3} else {2}.T; {0} = {1}.T if {3} else {2};
    {0} = ({1} if {3} else {2}).reshape(-1); {0} = ({1}.T if {3} else {2}.T).reshape(-1);
    {0} = {1}[1:] if {3} else {2}[:-1]; {0} = {1} if {3} else {1}[::-1]; {0} = {1} if {3} else {2}
    + 1; {0} = {1}[::-1] if {3} else {2} * 2; {0} = ({1} if {3} else {2})[::-2]; {0} =
    np.arange({4}) * 1.0 if {3} else np.ones({4}); ({1} if {3} else {2})[0] = 0.5; {0} = ({1} if
    {3} else {2}).ravel()[1:]; {0} = ({1}.T if {3} else {2}.T).T.reshape(-1)
""")
OBJECTS = forms("""
    {0}.s = {1}; {0}.s += {1}; {0}.v = {2}; {0}.v = {2} * 0.5; {0}.v += {1}; {0}.v[0] = {1};
    {0}.add({1}); {3} = {0}.scaled({2}); s = {0}.s; q = {0}.s * 0.5; {3} = {0}.v; {3} = {0}.v + 0;
    {0}.v[1:] *= 0.5; {0}.parts.append({1}); s = {0}.parts[-1]; {0}.count += 1; q = {0}.count * 0.5
""")
ZEROS = forms("""
    {0}[...] = {1}; {0} += {1}; {0} *= 0.5; {0}[()] = {1}; {0}[()] -= {1}; np.add({0}, {1},
    out={0}); {2} = {0} + 1; {2} = {0}[()]; {2} = {0}.copy(); {0}.fill({1}); {2} = {0} * {3};
    {3}[0] = {0}; np.sum({3}, out={0}); np.maximum({0}, {1}, out={0}); {2} = {3} > {0}; {2} =
    {0}[None]; {2} = {0}.reshape(1); {0}[...] = {3}[..., 0].sum()
""")
PAIRS = forms("""
    {0} = {1}, {2}; {0} = ({0}[1], {0}[0]); {0} = ({0}[0] + {1}, {0}[1]); {0} = ({0}[1], {0}[0] *
    0.5 + {1}); {0} = [{1}, {2}]; {0} = ({1}, {3}); {0} = ({0}[0], {3} + {1}); {0} = ({3}, {3} *
    2); {0} = ({0}[1], {0}[1])
""")
# lines of functions in the program: their names, a number and an array of it, a line each
DEFINED = [
    ["return u * 2 + {1}"],
    ["u[0] += {1}", "return u[1:]"],
    ["for p in range(len(u)):", "    u[p] = u[p] * 0.5 + {1}", "return u"],
    ["if u[0] > {1}:", "    return u * 0.5", "return u + 0"],
    ["{2}[0] = {1}", "return u"],
    ["w = u[::-1]", "w[1:] += {1}", "return w"],
    ["t = 0.0", "for p in range(1, len(u)):", "    if u[p] > {1}:", "        break",
     "    t += u[p]", "return t"],
    ["return u[u > {1}].sum()"],
]  # fmt: skip
DEFINED_CALLS = forms("""
    {0} = {1}({2}); {0} = {1}({2}[::-1]); {1}({2}); {0} = {1}({1}({2})); {0} = {2} + {1}({2})
""")
NEW = forms("""
    np.zeros({n}{dtype}); np.zeros(({n}, {m}){dtype}); np.ones({n}{dtype}); np.full(({m}, {n}),
    1.5{dtype}); np.eye({n}{dtype}); np.arange({n}); np.arange({n}, dtype='float64') * 0.5;
    np.linspace(0, 1, {n}); np.zeros_like({a}); np.ones_like({a}); np.array([1.0, 0.5, -2.0]);
    np.full_like({a}, 2); np.identity({n}); np.arange({m} * {m}).reshape({m}, {m});
    np.empty_like({a}) * 0; np.zeros({a}.shape{dtype}); np.array([{t}, 1, 0.5])
""")
RANGES = forms("""
    range({n}); range({n}); range(1, {n}); range(1, {n} - 1); range({n} - 1, -1, -1); range({n} -
    2, 0, -1); range(0, {n}, 2); range({n} - 1); range(1, {n}, 2); range({n} - 1, 0, -2)
""")
TRIANGLES = forms("""
    range({i}); range({i} + 1); range({i}, {n}); range({i} + 1, {n}); range({i}, -1, -1);
    range({n} - {i}); range({i} - 1, -1, -1)
""")
ROWS = forms("""
    {r} in {a}; {i}, {r} in enumerate({a}); {r}, {q} in zip({a}, {b}); {r} in {a}.T; {r} in
    {a}[1:]; {r} in reversed({a})
""")
SCALARS = forms("""
    0.5; 0.25; np.float32(1.5); np.float64(-0.5); 2; np.int64(2)
""")
ALIASES = forms("""
    x of x; x of a; x[1:] of x; x[::-1] of x; x[0] of a; x.T of a
""")
