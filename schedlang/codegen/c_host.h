/* What a host gives. Each function may be NULL: without allocate, the kernel uses malloc and free;
   without release, it leaves memory to the host; without parallel_for, it uses OpenMP or one thread.
   The threads of a parallel loop call allocate and release at the same time; memory may begin at any
   address. */

#ifndef SCHEDLANG_HOST
#define SCHEDLANG_HOST
typedef struct schedlang_host {
  void *(*allocate)(void *data, size_t bytes);
  void (*release)(void *data, void *memory);
  /* call body(task, i) once for each i of start <= i < stop, in any order, in any threads */
  void (*parallel_for)(void *data, int64_t start, int64_t stop,
                       void (*body)(void *task, int64_t i), void *task);
  void *data;
} schedlang_host;
#endif
