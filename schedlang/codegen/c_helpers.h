/* What the C source of a kernel may need: NumPy's arithmetic (vectors: c_vectors.h). GCC and Clang
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

/* What is read after it is not taken from registers that the reads before it filled. */

SL void sl_read_again(void) {
#if !defined(__clang__)
  __asm__ volatile("" : : : "memory");
#endif
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

/* GCC converts one by one the lanes of a vector that it may take from memory, and of one in a
   register all at once. */

#if defined(__SSE4_1__) && !defined(__clang__)
#define SL_HELD(v) if (sizeof(v) >= 8) __asm__("" : "+x"(v))
#else
#define SL_HELD(v) (void)(v)
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
SL sl_f32 sl_tf32_f32(sl_f32 a) {
  uint32_t bits;
  memcpy(&bits, &a, sizeof bits);
  bits = (bits + 0x1000) & 0xffffe000;
  sl_f32 r;
  memcpy(&r, &bits, sizeof r);
  return a != a ? a : r;
}

/* Stores that bypass the caches, where an array is aligned, and the fence after them. */

#if defined(__AVX__)
typedef long long sl_piece __attribute__((vector_size(32), may_alias));
#else
typedef long long sl_piece __attribute__((vector_size(16), may_alias));
#endif
#if defined(__clang__)
#define SL_STREAM(to, piece) __builtin_nontemporal_store((sl_piece)(piece), (sl_piece *)(to))
#elif defined(__AVX__)
#define SL_STREAM(to, piece) __builtin_ia32_movntdq256((sl_piece *)(to), (sl_piece)(piece))
#elif defined(__SSE2__)
#define SL_STREAM(to, piece) __builtin_ia32_movntdq((sl_piece *)(to), (sl_piece)(piece))
#else
#define SL_STREAM(to, piece) (*(sl_piece *)(to) = (sl_piece)(piece))
#endif
SL void sl_stream_fence(void) {
#if defined(__SSE2__)
  __builtin_ia32_sfence();
#else
  __sync_synchronize();
#endif
}
