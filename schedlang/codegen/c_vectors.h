/* Vectors: the type, its constants, loads and stores. */

#define SL_VECTOR(T, N)                                                                           \
  typedef sl_##T sl_##T##_##N __attribute__((vector_size(sizeof(sl_##T) * N)));
#define SL_SPLAT(T, N)                                                                            \
  SL sl_##T##_##N sl_splat_##T##_##N(sl_##T x) { return x - (sl_##T##_##N){0}; }
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
/* a vector at the address of its first lane. GCC takes lanes that are copied one by one for single
   numbers, and bytes that memcpy moves for a vector of another type, in a register of its own */
#define SL_MOVE(T, M, N)                                                                          \
  typedef M sl_##T##_##N##_placed                                                                 \
      __attribute__((vector_size(sizeof(M) * N), aligned(sizeof(M)), may_alias));                 \
  SL sl_##T##_##N sl_vload_##T##_##N(const M *a) {                                                \
    return *(const sl_##T##_##N##_placed *)a;                                                     \
  }                                                                                               \
  SL void sl_vstore_##T##_##N(M *a, sl_##T##_##N v) { *(sl_##T##_##N##_placed *)a = v; }
#define SL_ROUND(T, M, N, GET, PUT)                                                               \
  SL sl_##T##_##N sl_vload_##T##_##N(const M *a) {                                                \
    sl_##T##_##N v;                                                                               \
    for (int l = 0; l < N; l++) v[l] = GET(a[l]);                                                 \
    return v;                                                                                     \
  }                                                                                               \
  SL void sl_vstore_##T##_##N(M *a, sl_##T##_##N v) {                                             \
    for (int l = 0; l < N; l++) a[l] = PUT(v[l]);                                                 \
  }
#define SL_BFLOAT(N)                                                                              \
  typedef uint16_t sl_bf16_##N##_placed                                                           \
      __attribute__((vector_size(2 * N), aligned(2), may_alias));                                 \
  SL sl_bf16_##N sl_vload_bf16_##N(const uint16_t *a) {                                           \
    sl_bf16_##N##_placed bits = *(const sl_bf16_##N##_placed *)a;                                 \
    SL_HELD(bits);                                                                                \
    return (sl_bf16_##N)(__builtin_convertvector(bits, sl_u32_##N) << 16);                        \
  }                                                                                               \
  SL void sl_vstore_bf16_##N(uint16_t *a, sl_bf16_##N v) {                                        \
    *(sl_bf16_##N##_placed *)a =                                                                  \
        __builtin_convertvector((sl_u32_##N)v >> 16, sl_bf16_##N##_placed);                       \
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
    if ((uintptr_t)a % sizeof piece || sizeof v % sizeof piece != 0) {                            \
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
    if ((uintptr_t)a % sizeof(sl_piece) || N % n != 0) {                                          \
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
    __typeof__(a == a) sign = (__typeof__(a == a))(-(sl_##T##_##N){0});                           \
    return (sl_##T##_##N)((__typeof__(sign))a & ~sign);                                           \
  }
#define SL_RSQRT(T, N)                                                                            \
  SL sl_##T##_##N sl_rsqrt_##T##_##N(sl_##T##_##N a) { return (sl_##T)1 / sl_sqrt_##T##_##N(a); }
#define SL_COPYSIGN(T, N)                                                                         \
  SL sl_##T##_##N sl_copysign_##T##_##N(sl_##T##_##N a, sl_##T##_##N b) {                         \
    __typeof__(a == b) sign = (__typeof__(a == b))(-(sl_##T##_##N){0});                           \
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
#define SL_WIDEN(TO, FROM, N)                                                                     \
  SL sl_##TO##_##N sl_##TO##_of_##FROM##_##N(sl_##FROM##_##N a) {                                 \
    SL_HELD(a);                                                                                   \
    return __builtin_convertvector(a, sl_##TO##_##N);                                             \
  }
#define SL_WIDEN_TO_FLOAT(TO, FROM, N)                                                            \
  SL sl_##TO##_##N sl_##TO##_of_##FROM##_##N(sl_##FROM##_##N a) {                                 \
    SL_HELD(a);                                                                                   \
    return __builtin_convertvector(__builtin_convertvector(a, sl_i32_##N), sl_##TO##_##N);        \
  }
#define SL_NARROW2(TO, FROM, N)                                                                   \
  SL sl_##TO##_##N sl_##TO##_of_##FROM##_##N(sl_##FROM##_##N a) {                                 \
    return __builtin_convertvector(__builtin_convertvector(a, sl_i32_##N), sl_##TO##_##N);        \
  }
#define SL_NARROW1(TO, FROM, N)                                                                   \
  SL sl_##TO##_##N sl_##TO##_of_##FROM##_##N(sl_##FROM##_##N a) {                                 \
    sl_i32_##N whole = __builtin_convertvector(a, sl_i32_##N);                                    \
    return __builtin_convertvector(__builtin_convertvector(whole, sl_i16_##N), sl_##TO##_##N);    \
  }
#define SL_BFLOAT_OF(FROM, N)                                                                     \
  SL sl_bf16_##N sl_bf16_of_##FROM##_##N(sl_##FROM##_##N a) {                                     \
    sl_u32_##N bits = (sl_u32_##N)a, same = (sl_u32_##N)(a == a);                                 \
    sl_u32_##N near = bits + 0x7fff + (bits >> 16 & 1);                                           \
    return (sl_bf16_##N)(((near & same) | ((bits | 0x400000) & ~same)) & 0xffff0000);             \
  }
#define SL_CAST(TO, FROM, N, HOW)                                                                 \
  SL sl_##TO##_##N sl_##TO##_of_##FROM##_##N(sl_##FROM##_##N a) {                                 \
    sl_##TO##_##N v;                                                                              \
    for (int l = 0; l < N; l++) v[l] = HOW(a[l]);                                                 \
    return v;                                                                                     \
  }
