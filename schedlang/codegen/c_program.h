/* What a C program of its own needs: memory and threads by the host, and checks of tensors. A file
   has the definitions that its kernel uses, as of c_helpers.h. */

/* Memory of the host, or of malloc. The 64 bytes before it say whose it is, and where it begins. */

SL void *sl_given_memory(const schedlang_host *host, int64_t bytes) {
  if (bytes > 0 && (uint64_t)bytes > SIZE_MAX - 128) return NULL;
  size_t all = (size_t)(bytes > 0 ? bytes : 1) + 128;
  char *start = host && host->allocate ? host->allocate(host->data, all) : malloc(all);
  if (!start) return NULL;
  char *p = (char *)(((uintptr_t)start + 127) / 64 * 64);
  memcpy(p - 64, &host, sizeof host);
  memcpy(p - 32, &start, sizeof start);
  return p;
}
SL void sl_release(void *variable) {
  char *p = *(char **)variable, *start;
  const schedlang_host *host;
  if (!p) return;
  memcpy(&host, p - 64, sizeof host);
  memcpy(&start, p - 32, sizeof start);
  if (!host || !host->allocate) free(start);
  else if (host->release) host->release(host->data, start);
}
#define SL_RELEASED __attribute__((cleanup(sl_release)))

/* A parallel loop: by the host, or by OpenMP, or in order where the file is compiled without it. */

SL void sl_parallel_for(const schedlang_host *host, int64_t start, int64_t stop,
                        void (*body)(void *, int64_t), void *task) {
  if (host && host->parallel_for) {
    host->parallel_for(host->data, start, stop, body, task);
    return;
  }
#if defined(_OPENMP)
  #pragma omp parallel for
#endif
  for (int64_t i = start; i < stop; i++) body(task, i);
}

/* Tensors of DLPack. */

SL void *sl_elements(const DLTensor *t) { return (char *)t->data + t->byte_offset; }
SL int64_t sl_count(const DLTensor *t) {
  int64_t count = 1;
  for (int d = 0; d < t->ndim; d++) count *= t->shape[d];
  return count;
}
SL int sl_overlap(const DLTensor *a, const DLTensor *b, int in_place) {
  uintptr_t x = (uintptr_t)sl_elements(a), y = (uintptr_t)sl_elements(b);
  uintptr_t m = (uintptr_t)(sl_count(a) * (a->dtype.bits / 8));
  uintptr_t n = (uintptr_t)(sl_count(b) * (b->dtype.bits / 8));
  return m && n && x < y + n && y < x + m && !(in_place && x == y && m == n);
}
/* what is wrong with a tensor, as the last digit of a code */
SL int sl_checked(const DLTensor *t, int code, int bits, int rank) {
  if (!t) return 1;
  if (t->device.device_type != 1) return 2;
  if (t->dtype.code != code || t->dtype.bits != bits || t->dtype.lanes != 1) return 3;
  if (t->ndim != rank) return 4;
  for (int d = 0; d < rank; d++) if (t->shape[d] < 0) return 5;
  if (!t->data && sl_count(t)) return 1;
  int64_t step = 1;
  for (int d = rank - 1; d >= 0 && t->strides && sl_count(t); d--) {
    if (t->shape[d] != 1 && t->strides[d] != step) return 6;
    step *= t->shape[d];
  }
  /* a number of code 5 is two */
  if (sl_count(t) && (uintptr_t)sl_elements(t) % (uintptr_t)(bits / (code == 5 ? 16 : 8))) return 9;
  return 0;
}
#define SL_SAYS(NAME, DTYPE, RANK, SHAPE)                                                         \
  {NAME " is NULL or has no data", NAME " is not in memory of the CPU",                           \
   NAME " is not of dtype " DTYPE, NAME " does not have " RANK " dimensions",                     \
   NAME " does not have the shape " SHAPE, NAME " is not contiguous",                             \
   NAME " overlaps another array", NAME " has elements that sl.assume rules out",                 \
   NAME " begins at an address that is not a multiple of its elements' size"}
