/* What the C source of a kernel may need: vectors, half precision, NumPy's arithmetic. GCC and Clang
   compile it, with -fwrapv. A file has the definitions that its kernel uses, with the macros in
   capitals expanded and the types that the first typedefs stand for (codegen/c_definitions.py).

   A value has a dtype, by a tag: f32, i8, b8 (a bool), ... A f16 or bf16 is held as a float. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Helpers. A vector of 8 float32 is a sl_f32_8: f is for float, i and u for int, b for bool. */

#define SL static inline __attribute__((always_inline, unused))

typedef float sl_f32; typedef double sl_f64; typedef float sl_f16; typedef float sl_bf16;
typedef int8_t sl_i8; typedef int16_t sl_i16; typedef int32_t sl_i32; typedef int64_t sl_i64;
typedef uint8_t sl_u8; typedef uint16_t sl_u16; typedef uint32_t sl_u32; typedef uint64_t sl_u64;
typedef uint8_t sl_b8;

/* Storage. */

SL void *sl_allocated(int64_t bytes) {
  void *p = NULL;
  if (posix_memalign(&p, 64, bytes > 0 ? (size_t)bytes : 1)) {
    fprintf(stderr, "schedlang: no memory for %lld bytes\n", (long long)bytes);
    abort();
  }
  return p;
}
SL void sl_free(void *p) { free(*(void **)p); }
#define SL_HEAP __attribute__((cleanup(sl_free)))

/* Time stamps after all instructions before them, in ticks of a constant length, and the number of
   a thread of a parallel loop. */

#if defined(__x86_64__)
SL sl_i64 sl_ticks(void) {
  __builtin_ia32_lfence();
  return (sl_i64)__builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
SL sl_i64 sl_ticks(void) {
  sl_i64 t;
  __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(t) : : "memory");
  return t;
}
#else
#include <time.h>
SL sl_i64 sl_ticks(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (sl_i64)t.tv_sec * 1000000000 + t.tv_nsec;
}
#endif
#if defined(_OPENMP)
extern int omp_get_thread_num(void);
SL sl_i64 sl_thread_number(void) { return omp_get_thread_num(); }
#else
SL sl_i64 sl_thread_number(void) { return 0; }
#endif

/* Casts from floats to integers, by way of a wider signed type: x86 gives its lowest number else. */

#define sl_i8_of_float(x) ((sl_i8)(sl_i32)(x))
#define sl_i16_of_float(x) ((sl_i16)(sl_i32)(x))
#define sl_i32_of_float(x) ((sl_i32)(x))
#define sl_i64_of_float(x) ((sl_i64)(x))
#define sl_u8_of_float(x) ((sl_u8)(sl_i32)(x))
#define sl_u16_of_float(x) ((sl_u16)(sl_i32)(x))
#define sl_u32_of_float(x) ((sl_u32)(sl_i64)(x))
SL sl_u64 sl_u64_of_float(double x) {
  return x >= 0x1p63 ? (sl_u64)(sl_i64)(x - 0x1p63) ^ (1ULL << 63) : (sl_u64)(sl_i64)x;
}

/* Index arithmetic: divisors are positive, or a size that is 0, which gives 0. */

SL sl_i64 sl_quotient(sl_i64 a, sl_i64 b) { return b ? a / b - (a % b < 0) : 0; }
SL sl_i64 sl_remainder(sl_i64 a, sl_i64 b) { sl_i64 r = b ? a % b : 0; return r < 0 ? r + b : r; }

/* Arithmetic on integers, with NumPy's rules: 0 for a division by zero, wide shifts give 0. */

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
  SL sl_##T sl_fma_##T(sl_##T a, sl_##T b, sl_##T c) { return (sl_##T)(a * b + c); }              \
  SL sl_##T sl_round_even_##T(sl_##T a) { return a; }                                             \
  SL sl_##T sl_floor_##T(sl_##T a) { return a; }                                                  \
  SL sl_##T sl_ceil_##T(sl_##T a) { return a; }                                                   \
  SL sl_##T sl_trunc_##T(sl_##T a) { return a; }                                                  \
  SL sl_##T sl_rounded_##T(sl_##T a) { return a; }                                                \
  SL sl_##T sl_select_##T(sl_b8 c, sl_##T a, sl_##T b) { return c ? a : b; }
#define SL_SIGNED(T)                                                                              \
  SL_ANY_INTEGER(T)                                                                               \
  SL sl_##T sl_floordiv_##T(sl_##T a, sl_##T b) {                                                 \
    if (b == 0) return 0;                                                                         \
    if (b == -1) return (sl_##T)-a;                                                               \
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
  SL sl_##T sl_absolute_##T(sl_##T a) { return (sl_##T)(a < 0 ? -a : a); }
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
SL sl_b8 sl_select_b8(sl_b8 c, sl_b8 a, sl_b8 b) { return c ? a : b; }

/* Casts that keep a value outside of the range at its nearest limit; NaN is 0. END is the float
   after the largest value. And the number of 1 bits of a magnitude. */

#define SL_NEAREST(NAME, T, LOW, HIGH, F)                                                         \
  SL sl_##T sl_saturated_##NAME##_##F(sl_##F a) {                                                 \
    if (a < 0) return (sl_i64)a < (LOW) ? (sl_##T)(LOW) : (sl_##T)a;                              \
    return (sl_u64)a > (sl_u64)(HIGH) ? (sl_##T)(HIGH) : (sl_##T)a;                               \
  }
#define SL_NEAREST_OF_FLOAT(NAME, T, LOW, HIGH, END, F)                                           \
  SL sl_##T sl_saturated_##NAME##_##F(sl_##F a) {                                                 \
    if (a >= (sl_##F)(END)) return (sl_##T)(HIGH);                                                \
    return a > (sl_##F)(LOW) ? (sl_##T)sl_##T##_of_float(a) : a == a ? (sl_##T)(LOW) : 0;         \
  }
#define SL_SATURATED(NAME, T, LOW, HIGH, END)                                                     \
  SL_NEAREST(NAME, T, LOW, HIGH, b8)                                                              \
  SL_NEAREST(NAME, T, LOW, HIGH, i8) SL_NEAREST(NAME, T, LOW, HIGH, i16)                          \
  SL_NEAREST(NAME, T, LOW, HIGH, i32) SL_NEAREST(NAME, T, LOW, HIGH, i64)                         \
  SL_NEAREST(NAME, T, LOW, HIGH, u8) SL_NEAREST(NAME, T, LOW, HIGH, u16)                          \
  SL_NEAREST(NAME, T, LOW, HIGH, u32) SL_NEAREST(NAME, T, LOW, HIGH, u64)                         \
  SL_NEAREST_OF_FLOAT(NAME, T, LOW, HIGH, END, f32)                                               \
  SL_NEAREST_OF_FLOAT(NAME, T, LOW, HIGH, END, f64)
SL_SATURATED(int8, i8, INT8_MIN, INT8_MAX, 0x1p7)
SL_SATURATED(int16, i16, INT16_MIN, INT16_MAX, 0x1p15)
SL_SATURATED(int32, i32, INT32_MIN, INT32_MAX, 0x1p31)
SL_SATURATED(int64, i64, INT64_MIN, INT64_MAX, 0x1p63)
SL_SATURATED(uint8, u8, 0, UINT8_MAX, 0x1p8)
SL_SATURATED(uint16, u16, 0, UINT16_MAX, 0x1p16)
SL_SATURATED(uint32, u32, 0, UINT32_MAX, 0x1p32)
SL_SATURATED(uint64, u64, 0, UINT64_MAX, 0x1p64)
#define SL_POPCOUNT(T)                                                                            \
  SL sl_u8 sl_popcount_##T(sl_##T a) {                                                            \
    return (sl_u8)__builtin_popcountll((sl_u64)(a < 0 ? -(sl_i64)a : (sl_i64)a));                 \
  }
SL_POPCOUNT(i8) SL_POPCOUNT(i16) SL_POPCOUNT(i32) SL_POPCOUNT(i64) SL_POPCOUNT(b8)
SL_POPCOUNT(u8) SL_POPCOUNT(u16) SL_POPCOUNT(u32) SL_POPCOUNT(u64)

/* A value that passes a barrier is not fused with the addition after it. */

#if defined(__x86_64__)
#define SL_BARRIER(x) __asm__("" : "+x"(x))
#elif defined(__aarch64__)
#define SL_BARRIER(x) __asm__("" : "+w"(x))
#else
#define SL_BARRIER(x) __asm__("" : "+m"(x))
#endif

/* Arithmetic that fast math leaves as it is: in Clang all of a function, in GCC the value of an
   expression. */

#if defined(__wasm__)
#define SL_IN_ORDER _Pragma("clang fp reassociate(off) reciprocal(off)")
#define SL_ORDERED(x) (x)
#elif defined(__clang__)
#define SL_IN_ORDER _Pragma("float_control(precise, on)")
#define SL_ORDERED(x) (x)
#elif defined(__ASSOCIATIVE_MATH__)
#define SL_IN_ORDER
#define SL_ORDERED(x) __builtin_assoc_barrier(x)
#else
#define SL_IN_ORDER
#define SL_ORDERED(x) (x)
#endif

/* Arithmetic on floats: NaN wins in minimum and maximum, else the first zero; // and % round down. */

#define SL_FLOAT(T, F)                                                                            \
  SL sl_##T sl_minimum_##T(sl_##T a, sl_##T b) { return b < a || b != b ? b : a; }                \
  SL sl_##T sl_maximum_##T(sl_##T a, sl_##T b) { return b > a || b != b ? b : a; }                \
  SL sl_##T sl_mod_##T(sl_##T a, sl_##T b) {                                                      \
    sl_##T r = fmod##F(a, b);                                                                     \
    if (r == 0) return copysign##F(0, b);                                                         \
    return (r < 0) != (b < 0) ? r + b : r;                                                        \
  }                                                                                               \
  SL sl_##T sl_floordiv_##T(sl_##T a, sl_##T b) {                                                 \
    if (b == 0) return a / b;                                                                     \
    sl_##T r = fmod##F(a, b), q = (a - r) / b;                                                    \
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;                                                     \
    if (q == 0) return copysign##F(0, a / b);                                                     \
    sl_##T f = floor##F(q);                                                                       \
    return q - f > (sl_##T)0.5 ? f + 1 : f;                                                       \
  }                                                                                               \
  SL sl_##T sl_power_##T(sl_##T a, sl_##T b) { return pow##F(a, b); }                             \
  SL sl_##T sl_power_half_##T(sl_##T a) { return fabs##F(sqrt##F(a == -INFINITY ? -a : a)); }     \
  SL sl_##T sl_atan2_##T(sl_##T a, sl_##T b) { return atan2##F(a, b); }                           \
  SL sl_##T sl_copysign_##T(sl_##T a, sl_##T b) { return copysign##F(a, b); }                     \
  SL sl_##T sl_fma_##T(sl_##T a, sl_##T b, sl_##T c) { return fma##F(a, b, c); }                  \
  SL sl_##T sl_select_##T(sl_b8 c, sl_##T a, sl_##T b) { return c ? a : b; }                      \
  SL sl_##T sl_absolute_##T(sl_##T a) { return fabs##F(a); }                                      \
  SL sl_##T sl_round_even_##T(sl_##T a) { return rint##F(a); }                                    \
  SL sl_##T sl_rsqrt_##T(sl_##T a) { return 1 / sqrt##F(a); }                                     \
  SL sl_##T sl_sigmoid_##T(sl_##T a) { return 1 / (1 + exp##F(-a)); }                             \
  SL sl_##T sl_rounded_##T(sl_##T a) { SL_BARRIER(a); return a; }                                 \
  SL sl_b8 sl_isnan_##T(sl_##T a) { return a != a; }                                              \
  SL sl_b8 sl_isinf_##T(sl_##T a) { return isinf(a) != 0; }                                       \
  SL sl_b8 sl_isfinite_##T(sl_##T a) { return isfinite(a) != 0; }
#define SL_LIBM(T, F, NAME) SL sl_##T sl_##NAME##_##T(sl_##T a) { return NAME##F(a); }
#define SL_LIBM_ALL(T, F)                                                                         \
  SL_LIBM(T, F, sqrt) SL_LIBM(T, F, floor) SL_LIBM(T, F, ceil) SL_LIBM(T, F, trunc)               \
  SL_LIBM(T, F, exp) SL_LIBM(T, F, exp2) SL_LIBM(T, F, expm1) SL_LIBM(T, F, log)                  \
  SL_LIBM(T, F, log2) SL_LIBM(T, F, log10) SL_LIBM(T, F, log1p) SL_LIBM(T, F, sin)                \
  SL_LIBM(T, F, cos) SL_LIBM(T, F, tan) SL_LIBM(T, F, asin) SL_LIBM(T, F, acos)                   \
  SL_LIBM(T, F, atan) SL_LIBM(T, F, sinh) SL_LIBM(T, F, cosh) SL_LIBM(T, F, tanh)                 \
  SL_LIBM(T, F, asinh) SL_LIBM(T, F, acosh) SL_LIBM(T, F, atanh) SL_LIBM(T, F, erf)
SL_FLOAT(f32, f) SL_LIBM_ALL(f32, f) SL_FLOAT(f64, ) SL_LIBM_ALL(f64, )
#define SL_BITS(TO, FROM) \
  SL sl_##TO sl_bits_##TO(sl_##FROM a) { sl_##TO r; memcpy(&r, &a, sizeof r); return r; }
SL_BITS(i32, f32) SL_BITS(i64, f64) SL_BITS(f32, i32) SL_BITS(f64, i64)

/* Stores that bypass the caches, where an array is aligned, and the fence after them. */

#if defined(__AVX__)
typedef long long sl_piece __attribute__((vector_size(32)));
#define SL_STREAM(to, piece) __builtin_ia32_movntdq256((sl_piece *)(to), (sl_piece)(piece))
#elif defined(__SSE2__)
typedef long long sl_piece __attribute__((vector_size(16)));
#define SL_STREAM(to, piece) __builtin_ia32_movntdq((sl_piece *)(to), (sl_piece)(piece))
#else
typedef long long sl_piece __attribute__((vector_size(16), may_alias));
#define SL_STREAM(to, piece) (*(sl_piece *)(to) = (sl_piece)(piece))
#endif
SL void sl_stream_fence(void) {
#if defined(__SSE2__)
  __builtin_ia32_sfence();
#else
  __sync_synchronize();
#endif
}

/* Vectors: the type, its constants, loads and stores. */

#define SL_VECTOR(T, N)                                                                           \
  typedef sl_##T sl_##T##_##N __attribute__((vector_size(sizeof(sl_##T) * N)));                   \
  SL sl_##T##_##N sl_splat_##T##_##N(sl_##T x) { return x - (sl_##T##_##N){}; }
#define SL_IOTA(N)                                                                                \
  SL sl_i64_##N sl_iota_##N(void) {                                                               \
    sl_i64_##N v;                                                                                 \
    for (int l = 0; l < N; l++) v[l] = l;                                                         \
    return v;                                                                                     \
  }
/* whether start + step * lane is below end, which may be any number; the step is above 0 */
#define SL_FIRST(N)                                                                               \
  SL sl_b8_##N sl_first_##N(sl_i64 start, sl_i64 step, sl_i64 end) {                              \
    sl_b8_##N v;                                                                                  \
    sl_u64 n = start < end ? ((sl_u64)end - (sl_u64)start - 1) / (sl_u64)step + 1 : 0;            \
    for (int l = 0; l < N; l++) v[l] = l;                                                         \
    return (sl_b8_##N)(v < (sl_u8)(n < N ? n : N)) & 1;                                           \
  }
/* GCC takes lanes that are copied one by one for single numbers, and not for a vector; it keeps what
   is in a register where the first lane has no value yet */
#define SL_MOVE(T, M, N)                                                                          \
  SL sl_##T##_##N sl_vload_##T##_##N(const M *a) {                                                \
    sl_##T##_##N v;                                                                               \
    memcpy(&v, a, sizeof v);                                                                      \
    return v;                                                                                     \
  }                                                                                               \
  SL void sl_vstore_##T##_##N(M *a, sl_##T##_##N v) { memcpy(a, &v, sizeof v); }
#define SL_ROUND(T, M, N, GET, PUT)                                                               \
  SL sl_##T##_##N sl_vload_##T##_##N(const M *a) {                                                \
    sl_##T##_##N v;                                                                               \
    for (int l = 0; l < N; l++) v[l] = GET(a[l]);                                                 \
    return v;                                                                                     \
  }                                                                                               \
  SL void sl_vstore_##T##_##N(M *a, sl_##T##_##N v) {                                             \
    for (int l = 0; l < N; l++) a[l] = PUT(v[l]);                                                 \
  }
#define SL_VLOAD_MASKED(T, M, N, GET, PUT)                                                        \
  SL sl_##T##_##N sl_vload_masked_##T##_##N(const M *a, sl_b8_##N m) {                            \
    sl_##T##_##N v;                                                                               \
    for (int l = 0; l < N; l++) v[l] = m[l] ? GET(a[l]) : 0;                                      \
    return v;                                                                                     \
  }
#define SL_VSTORE_MASKED(T, M, N, GET, PUT)                                                       \
  SL void sl_vstore_masked_##T##_##N(M *a, sl_##T##_##N v, sl_b8_##N m) {                         \
    for (int l = 0; l < N; l++) if (m[l]) a[l] = PUT(v[l]);                                       \
  }
#define SL_VSTORE_STREAM(T, M, N)                                                                 \
  SL void sl_vstore_stream_##T##_##N(M *a, sl_##T##_##N v) {                                      \
    sl_piece piece;                                                                               \
    if ((uintptr_t)a % sizeof piece || sizeof v % sizeof piece) {                                 \
      sl_vstore_##T##_##N(a, v);                                                                  \
      return;                                                                                     \
    }                                                                                             \
    _Pragma("GCC unroll 16") for (size_t k = 0; k < sizeof v; k += sizeof piece) {                \
      memcpy(&piece, (char *)&v + k, sizeof piece);                                               \
      SL_STREAM((char *)a + k, piece);                                                            \
    }                                                                                             \
  }
#define SL_VSTORE_STREAM_ROUNDED(T, M, N, GET, PUT)                                               \
  SL void sl_vstore_stream_##T##_##N(M *a, sl_##T##_##N v) {                                      \
    enum { n = sizeof(sl_piece) / sizeof(M) };                                                    \
    if ((uintptr_t)a % sizeof(sl_piece) || N % n) {                                               \
      sl_vstore_##T##_##N(a, v);                                                                  \
      return;                                                                                     \
    }                                                                                             \
    _Pragma("GCC unroll 16") for (int k = 0; k < N; k += n) {                                     \
      M piece __attribute__((vector_size(sizeof(sl_piece))));                                     \
      for (int l = 0; l < n; l++) piece[l] = PUT(v[k + l]);                                       \
      SL_STREAM(a + k, piece);                                                                    \
    }                                                                                             \
  }
#define SL_MEMORY(T, M, N, GET, PUT)                                                              \
  SL sl_##T##_##N sl_vload_if_##T##_##N(sl_b8 test, const M *a, sl_##T##_##N other) {             \
    return test ? sl_vload_##T##_##N(a) : other;                                                  \
  }                                                                                               \
  SL sl_##T##_##N sl_vload_strided_##T##_##N(const M *a, sl_i64 step) {                           \
    sl_##T##_##N v = {GET(a[0])};                                                                 \
    for (int l = 1; l < N; l++) v[l] = GET(a[l * step]);                                          \
    return v;                                                                                     \
  }                                                                                               \
  SL sl_##T##_##N sl_vload_strided_masked_##T##_##N(const M *a, sl_i64 step, sl_b8_##N m) {       \
    sl_##T##_##N v;                                                                               \
    for (int l = 0; l < N; l++) v[l] = m[l] ? GET(a[l * step]) : 0;                               \
    return v;                                                                                     \
  }                                                                                               \
  SL sl_##T##_##N sl_vload_shuffled_##T##_##N(const M *a, const int *order) {                     \
    sl_##T##_##N v = {GET(a[order[0]])};                                                          \
    for (int l = 1; l < N; l++) v[l] = GET(a[order[l]]);                                          \
    return v;                                                                                     \
  }                                                                                               \
  SL void sl_vload_columns_##T##_##N(sl_##T##_##N *v, const M *a, sl_i64 step, int columns) {     \
    for (int k = 0; k < columns; k++) v[k] = sl_vload_strided_##T##_##N(a + k, step);             \
  }                                                                                               \
  SL sl_##T##_##N sl_vgather_##T##_##N(const M *a, sl_i64_##N at) {                               \
    sl_##T##_##N v = {GET(a[at[0]])};                                                             \
    for (int l = 1; l < N; l++) v[l] = GET(a[at[l]]);                                             \
    return v;                                                                                     \
  }                                                                                               \
  SL sl_##T##_##N sl_vgather_masked_##T##_##N(const M *a, sl_i64_##N at, sl_b8_##N m) {           \
    sl_##T##_##N v;                                                                               \
    for (int l = 0; l < N; l++) v[l] = m[l] ? GET(a[at[l]]) : 0;                                  \
    return v;                                                                                     \
  }                                                                                               \
  SL void sl_vstore_strided_##T##_##N(M *a, sl_i64 step, sl_##T##_##N v) {                        \
    for (int l = 0; l < N; l++) a[l * step] = PUT(v[l]);                                          \
  }                                                                                               \
  SL void sl_vscatter_##T##_##N(M *a, sl_i64_##N at, sl_##T##_##N v) {                            \
    for (int l = 0; l < N; l++) a[at[l]] = PUT(v[l]);                                             \
  }                                                                                               \
  SL void sl_vscatter_masked_##T##_##N(M *a, sl_i64_##N at, sl_##T##_##N v, sl_b8_##N m) {        \
    for (int l = 0; l < N; l++) if (m[l]) a[at[l]] = PUT(v[l]);                                   \
  }

/* Vectors: operations lane by lane, and by operators. */

#define SL_MAP1(F, R, T, G, N)                                                                    \
  SL sl_##R##_##N sl_##F##_##T##_##N(sl_##T##_##N a) {                                            \
    sl_##R##_##N v;                                                                               \
    for (int l = 0; l < N; l++) v[l] = sl_##F##_##G(a[l]);                                        \
    return v;                                                                                     \
  }
#define SL_MAP2(F, T, G, N)                                                                       \
  SL sl_##T##_##N sl_##F##_##T##_##N(sl_##T##_##N a, sl_##T##_##N b) {                            \
    sl_##T##_##N v;                                                                               \
    for (int l = 0; l < N; l++) v[l] = sl_##F##_##G(a[l], b[l]);                                  \
    return v;                                                                                     \
  }
#define SL_EXTREME(F, OP, T, N)                                                                   \
  SL sl_##T##_##N sl_##F##_##T##_##N(sl_##T##_##N a, sl_##T##_##N b) {                            \
    __typeof__(a OP b) m = (b OP a) | (b != b);                                                   \
    return (sl_##T##_##N)(((__typeof__(m))b & m) | ((__typeof__(m))a & ~m));                      \
  }
#define SL_MAP3(F, T, G, N)                                                                       \
  SL sl_##T##_##N sl_##F##_##T##_##N(sl_##T##_##N a, sl_##T##_##N b, sl_##T##_##N c) {            \
    sl_##T##_##N v;                                                                               \
    for (int l = 0; l < N; l++) v[l] = sl_##F##_##G(a[l], b[l], c[l]);                            \
    return v;                                                                                     \
  }
#define SL_QUOTIENT(F, N)                                                                         \
  SL sl_i64_##N sl_##F##_##N(sl_i64_##N a, sl_i64_##N b) {                                        \
    for (int l = 0; l < N; l++) a[l] = sl_##F(a[l], b[l]);                                        \
    return a;                                                                                     \
  }
#define SL_COMPARE(NAME, OP, T, N)                                                                \
  SL sl_b8_##N sl_##NAME##_##T##_##N(sl_##T##_##N a, sl_##T##_##N b) {                            \
    return __builtin_convertvector((a OP b), sl_b8_##N) & 1;                                      \
  }
#define SL_CHOOSE(T, I, N)                                                                        \
  SL sl_##T##_##N sl_choose_##T##_##N(sl_##I##_##N m, sl_##T##_##N a, sl_##T##_##N b) {           \
    return (sl_##T##_##N)(((sl_##I##_##N)a & m) | ((sl_##I##_##N)b & ~m));                        \
  }
#define SL_SELECT(T, N)                                                                           \
  SL sl_##T##_##N sl_select_##T##_##N(sl_b8_##N c, sl_##T##_##N a, sl_##T##_##N b) {              \
    return sl_choose_##T##_##N(-__builtin_convertvector(c, __typeof__(a == b)), a, b);            \
  }
#define SL_SELECT_IF(NAME, OP, C, T, N)                                                           \
  SL sl_##T##_##N sl_select_##NAME##_##C##_##T##_##N(                                             \
      sl_##C##_##N x, sl_##C##_##N y, sl_##T##_##N a, sl_##T##_##N b) {                           \
    return sl_choose_##T##_##N(__builtin_convertvector((x OP y), __typeof__(a == b)), a, b);      \
  }
#define SL_ABSOLUTE(T, N)                                                                         \
  SL sl_##T##_##N sl_absolute_##T##_##N(sl_##T##_##N a) {                                         \
    __typeof__(a == a) sign = (__typeof__(a == a))(-(sl_##T##_##N){});                            \
    return (sl_##T##_##N)((__typeof__(sign))a & ~sign);                                           \
  }
#define SL_MAGNITUDE(T, N)                                                                        \
  SL sl_##T##_##N sl_absolute_##T##_##N(sl_##T##_##N a) {                                         \
    sl_##T##_##N negative = (sl_##T##_##N)(a < 0);                                                \
    return (a ^ negative) - negative;                                                             \
  }
#define SL_COPYSIGN(T, N)                                                                         \
  SL sl_##T##_##N sl_copysign_##T##_##N(sl_##T##_##N a, sl_##T##_##N b) {                         \
    __typeof__(a == b) sign = (__typeof__(a == b))(-(sl_##T##_##N){});                            \
    return (sl_##T##_##N)(((__typeof__(sign))a & ~sign) | ((__typeof__(sign))b & sign));          \
  }
/* x * 2**n, where shifted is n + 12582912: in two factors, which overflow where the result does */
#define SL_SCALED(N)                                                                              \
  SL sl_f32_##N sl_scaled_f32_##N(sl_f32_##N x, sl_f32_##N shifted) {                             \
    SL_IN_ORDER                                                                                   \
    sl_i32_##N n = (sl_i32_##N)shifted - 0x4b400000, half = n >> 1;                               \
    x = SL_ORDERED(x * (sl_f32_##N)((half + 127) << 23));                                         \
    return x * (sl_f32_##N)((n - half + 127) << 23);                                              \
  }
#define SL_CONVERT(TO, FROM, N)                                                                   \
  SL sl_##TO##_##N sl_##TO##_of_##FROM##_##N(sl_##FROM##_##N a) {                                 \
    return __builtin_convertvector(a, sl_##TO##_##N);                                             \
  }
#define SL_CAST(TO, FROM, N, HOW)                                                                 \
  SL sl_##TO##_##N sl_##TO##_of_##FROM##_##N(sl_##FROM##_##N a) {                                 \
    sl_##TO##_##N v;                                                                              \
    for (int l = 0; l < N; l++) v[l] = HOW(a[l]);                                                 \
    return v;                                                                                     \
  }
