s = sl.schedule(C)
C_local = s.cache_write(C, "local")
i, j = s[C].op.axis
i_outer, i_inner = s[C].split(i, factor=4)
j_outer, j_inner = s[C].split(j, factor=8, tail="guard")
s[C].vectorize(j_inner)
s[C].parallel(i_outer)
s[C_local].compute_at(s[C], i_inner)
(k,) = s[C_local].op.reduce_axis
s[C_local].unroll(k)
