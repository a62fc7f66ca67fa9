/* What the OpenCL C of a kernel may need: NumPy's arithmetic, short floats, atomic updates. OpenCL C
   1.2 has all of it. A file has the definitions that its kernels use, with the macros in capitals
   expanded and the types that the first typedefs stand for (codegen/c_definitions.py).

   A value has a dtype, by a tag: f32, i8, b8 (a bool), ... A f16 or bf16 is held as a float. */

/* Helpers. */

#define SL static inline

typedef float sl_f32; typedef double sl_f64; typedef float sl_f16; typedef float sl_bf16;
typedef char sl_i8; typedef short sl_i16; typedef int sl_i32; typedef long sl_i64;
typedef uchar sl_u8; typedef ushort sl_u16; typedef uint sl_u32; typedef ulong sl_u64;
typedef uchar sl_b8;

/* A double as the float whose last bit says that bits were dropped, so that a shorter float is
   rounded as if it came from the double. */

SL float sl_odd(double x) {
  float f = (float)x;
  double back = f;
  uint bits = as_uint(f);
  bits -= fabs(back) > fabs(x);
  bits |= back < x || back > x;
  return as_float(bits);
}

/* Half precision: an element of an argument is 16 bits; a value is a float that holds one. Rounded
   to nearest, ties to even: from 65520 on to infinity, below 2^-14 to multiples of 2^-24. */

SL sl_f16 sl_half(float x) {
  uint sign = as_uint(x) & 0x80000000, bits = as_uint(x) ^ sign;
  if (bits > 0x7f800000) return x;
  if (bits >= 0x477ff000) bits = 0x7f800000;
  else if (bits < 0x38800000) bits = as_uint((as_uint(as_float(bits) + 0.5f) - 0x3f000000) * 0x1p-24f);
  else bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
  return as_float(sign | bits);
}
SL sl_f16 sl_half_from_f64(double x) { return sl_half(sl_odd(x)); }

/* bfloat16: the upper half of a float. Rounded to nearest, ties to even; a NaN stays one. */

SL sl_bf16 sl_bfloat(float x) {
  uint bits = as_uint(x);
  bits = x == x ? bits + 0x7fff + (bits >> 16 & 1) : bits | 0x400000;
  return as_float(bits & 0xffff0000);
}
SL sl_bf16 sl_bfloat_from_f64(double x) { return sl_bfloat(sl_odd(x)); }
SL sl_bf16 sl_bfloat_from_u64(sl_u64 x) {
  int drop = max(0, 40 - (int)clz(x));
  sl_u64 kept = x >> drop;
  sl_u64 odd = kept << drop == x ? kept : kept | 1;
  return sl_bfloat(ldexp((float)odd, drop));
}
SL sl_bf16 sl_bfloat_from_i64(sl_i64 x) {
  return x < 0 ? -sl_bfloat_from_u64(-(sl_u64)x) : sl_bfloat_from_u64((sl_u64)x);
}
SL sl_bf16 sl_bfloat_get(ushort bits) { return as_float((uint)bits << 16); }
SL ushort sl_bfloat_put(float x) { return (ushort)(as_uint(x) >> 16); }

/* Casts from floats to integers, by way of a wider signed type. */

#define sl_i8_of_float(x) ((sl_i8)(sl_i32)(x))
#define sl_i16_of_float(x) ((sl_i16)(sl_i32)(x))
#define sl_i32_of_float(x) ((sl_i32)(x))
#define sl_i64_of_float(x) ((sl_i64)(x))
#define sl_u8_of_float(x) ((sl_u8)(sl_i32)(x))
#define sl_u16_of_float(x) ((sl_u16)(sl_i32)(x))
#define sl_u32_of_float(x) ((sl_u32)(sl_i64)(x))
#define sl_u64_of_float(x) ((x) < 0 ? (sl_u64)(sl_i64)(x) : (sl_u64)(x))

/* Index arithmetic: divisors are positive, or a size that is 0, which gives 0. */

SL sl_i64 sl_quotient(sl_i64 a, sl_i64 b) { return b ? a / b - (a % b < 0) : 0; }
SL sl_i64 sl_remainder(sl_i64 a, sl_i64 b) { sl_i64 r = b ? a % b : 0; return r < 0 ? r + b : r; }

/* Arithmetic on integers, with NumPy's rules: 0 for a division by zero, wide shifts give 0. What may
   overflow is computed without signs. */

#define SL_ANY_INTEGER(T)                                                                         \
  SL sl_##T sl_power_##T(sl_##T a, sl_##T b) {                                                    \
    if (b < 0) return a == 1 || (a + 1 == 0 && b % 2 == 0) ? 1 : a + 1 == 0 ? a : 0;              \
    sl_u64 r = 1, x = (sl_u64)a, n = (sl_u64)b;                                                   \
    for (; n; n >>= 1, x *= x) if (n & 1) r *= x;                                                 \
    return (sl_##T)r;                                                                             \
  }                                                                                               \
  SL sl_##T sl_left_shift_##T(sl_##T a, sl_##T b) {                                               \
    return (sl_u64)b < sizeof(a) * 8 ? (sl_##T)((sl_u64)a << b) : (sl_##T)0;                      \
  }                                                                                               \
  SL sl_##T sl_minimum_##T(sl_##T a, sl_##T b) { return a < b ? a : b; }                          \
  SL sl_##T sl_maximum_##T(sl_##T a, sl_##T b) { return a > b ? a : b; }                          \
  SL sl_##T sl_fma_##T(sl_##T a, sl_##T b, sl_##T c) {                                            \
    return (sl_##T)((sl_u64)a * (sl_u64)b + (sl_u64)c);                                           \
  }
#define SL_SIGNED(T)                                                                              \
  SL_ANY_INTEGER(T)                                                                               \
  SL sl_##T sl_floordiv_##T(sl_##T a, sl_##T b) {                                                 \
    if (b == 0) return 0;                                                                         \
    if (b == -1) return (sl_##T)-(sl_u64)a;                                                       \
    return (sl_##T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));                                  \
  }                                                                                               \
  SL sl_##T sl_mod_##T(sl_##T a, sl_##T b) {                                                      \
    if (b == 0 || b == -1) return 0;                                                              \
    sl_##T r = (sl_##T)(a % b);                                                                   \
    return (sl_##T)(r != 0 && (r < 0) != (b < 0) ? r + b : r);                                    \
  }                                                                                               \
  SL sl_##T sl_right_shift_##T(sl_##T a, sl_##T b) {                                              \
    return (sl_##T)(a >> ((sl_u64)b < sizeof(a) * 8 ? (int)b : (int)sizeof(a) * 8 - 1));          \
  }                                                                                               \
  SL sl_##T sl_absolute_##T(sl_##T a) { return a < 0 ? (sl_##T)-(sl_u64)a : a; }
#define SL_UNSIGNED(T)                                                                            \
  SL_ANY_INTEGER(T)                                                                               \
  SL sl_##T sl_floordiv_##T(sl_##T a, sl_##T b) { return b ? (sl_##T)(a / b) : (sl_##T)0; }       \
  SL sl_##T sl_mod_##T(sl_##T a, sl_##T b) { return b ? (sl_##T)(a % b) : (sl_##T)0; }            \
  SL sl_##T sl_right_shift_##T(sl_##T a, sl_##T b) {                                              \
    return (sl_u64)b < sizeof(a) * 8 ? (sl_##T)(a >> b) : (sl_##T)0;                              \
  }                                                                                               \
  SL sl_##T sl_absolute_##T(sl_##T a) { return a; }
SL_SIGNED(i8) SL_SIGNED(i16) SL_SIGNED(i32) SL_SIGNED(i64)
SL_UNSIGNED(u8) SL_UNSIGNED(u16) SL_UNSIGNED(u32) SL_UNSIGNED(u64)
SL sl_b8 sl_minimum_b8(sl_b8 a, sl_b8 b) { return a & b; }
SL sl_b8 sl_maximum_b8(sl_b8 a, sl_b8 b) { return a | b; }

/* The number of 1 bits of a magnitude. */

#define SL_POPCOUNT(T)                                                                            \
  SL sl_u8 sl_popcount_##T(sl_##T a) {                                                            \
    return (sl_u8)popcount(a < 0 ? -(sl_u64)a : (sl_u64)a);                                       \
  }
SL_POPCOUNT(i8) SL_POPCOUNT(i16) SL_POPCOUNT(i32) SL_POPCOUNT(i64) SL_POPCOUNT(b8)
SL_POPCOUNT(u8) SL_POPCOUNT(u16) SL_POPCOUNT(u32) SL_POPCOUNT(u64)

/* Arithmetic on floats: NaN wins in minimum and maximum, else the first zero; // and % round down. */

#define SL_FLOAT(T)                                                                               \
  SL sl_##T sl_minimum_##T(sl_##T a, sl_##T b) { return b < a || b != b ? b : a; }                \
  SL sl_##T sl_maximum_##T(sl_##T a, sl_##T b) { return b > a || b != b ? b : a; }                \
  SL sl_##T sl_mod_##T(sl_##T a, sl_##T b) {                                                      \
    sl_##T r = fmod(a, b);                                                                        \
    if (r == 0) return copysign((sl_##T)0, b);                                                    \
    return (r < 0) != (b < 0) ? r + b : r;                                                        \
  }                                                                                               \
  SL sl_##T sl_floordiv_##T(sl_##T a, sl_##T b) {                                                 \
    if (b == 0) return a / b;                                                                     \
    sl_##T r = fmod(a, b), q = (a - r) / b;                                                       \
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;                                                     \
    if (q == 0) return copysign((sl_##T)0, a / b);                                                \
    sl_##T f = floor(q);                                                                          \
    return q - f > (sl_##T)0.5f ? f + 1 : f;                                                      \
  }                                                                                               \
  SL sl_##T sl_power_half_##T(sl_##T a) { return fabs(sqrt(a == -INFINITY ? -a : a)); }           \
  SL sl_##T sl_sigmoid_##T(sl_##T a) { return 1 / (1 + exp(-a)); }
SL_FLOAT(f32) SL_FLOAT(f64)
SL sl_f32 sl_tf32_f32(sl_f32 a) {
  return isnan(a) ? a : as_float((as_uint(a) + 0x1000) & 0xffffe000);
}

/* Atomic updates: compare and swap until no other work-item came in between. SPACE is where the
   element is, and NEW what becomes of the element a. The element before is returned. */

#define SL_ATOMIC(NAME, T, WORD, FROM, TO, SWAP, SPACE, NEW)                                      \
  SL sl_##T sl_atomic_##NAME##_##T##_##SPACE(volatile __##SPACE sl_##T *p, sl_##T x) {            \
    volatile __##SPACE WORD *word = (volatile __##SPACE WORD *)p;                                 \
    WORD old = *word, seen;                                                                       \
    while (true) {                                                                                \
      sl_##T a = FROM(old);                                                                       \
      seen = SWAP(word, old, TO(NEW));                                                            \
      if (seen == old) return a;                                                                  \
      old = seen;                                                                                 \
    }                                                                                             \
  }
