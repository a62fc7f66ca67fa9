/* The weights of NAME: a file that is checked before anything in it is used. */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the weights are little-endian, and a call reads them as they are: the processor must be, too"
#endif

struct NAME {
  const schedlang_host *host;
  const uint8_t *file, *weights; /* the file in memory, and the elements of all weights in it */
  size_t size;
  void *mapped, *copy; /* the file if it is mapped, and if it is in memory of the network */
  void *idle; /* the workspace that the next call takes, NULL if there is none */
};

static uint64_t sl_number(const uint8_t *p, size_t bytes) {
  uint64_t number = 0;
  memcpy(&number, p, bytes);
  return number;
}
/* 512 sums, of every 512th word each, so that a processor works at several of them at once */
static uint64_t sl_checksum(uint64_t seed, const uint8_t *p, size_t bytes) {
  const uint64_t factor = 0x9e3779b97f4a7c15;
  uint64_t sums[512];
  size_t words = bytes / 8;
  for (size_t k = 0; k < 512; k++) sums[k] = seed + k;
  for (size_t i = 0; i < words; i += 512) {
    size_t count = words - i < 512 ? words - i : 512;
    for (size_t k = 0; k < count; k++) {
      uint64_t sum = (sums[k] ^ sl_number(p + 8 * (i + k), 8)) * factor;
      sums[k] = sum ^ sum >> 32;
    }
  }
  for (size_t k = 0; k < 512; k++) {
    seed = (seed ^ sums[k]) * factor;
    seed ^= seed >> 32;
  }
  return seed;
}
/* The head has 8 bytes that no other file begins with, the version of the format and the number of
   weights, the hash of the network, the size of the file, where its elements begin and how many bytes
   they take, and the checksum of all else. An entry for each weight follows: its first byte, its
   bytes, its dtype as in DLPack and its rank, its shape, and its name. */
static int sl_check(struct NAME *net) {
  const uint8_t *file = net->file;
  if (net->size < 8 || memcmp(file, "\x89SLW\r\n\x1a\n", 8)) return SL_NOT_WEIGHTS;
  if (net->size < 64) return SL_DAMAGED;
  if (sl_number(file + 8, 4) != 1) return SL_NOT_WEIGHTS;
  if (memcmp(file + 16, sl_hash, 16)) return SL_OTHER_NETWORK;
  if (sl_number(file + 32, 8) != net->size || net->size != SL_FILE_BYTES) return SL_DAMAGED;
  uint64_t sum = sl_checksum(sl_checksum(0, file, 56), file + 64, net->size - 64);
  if (sl_number(file + 56, 8) != sum) return SL_DAMAGED;
  uint64_t start = sl_number(file + 40, 8), bytes = sl_number(file + 48, 8);
  if (start % 64 || start < 64 || start > net->size || bytes != net->size - start) return SL_DAMAGED;
  if (bytes != SL_WEIGHT_BYTES || sl_number(file + 12, 4) != SL_WEIGHTS) return SL_OTHER_NETWORK;
  net->weights = file + start;
  const uint8_t *at = file + 64;
  for (const struct sl_weight *w = sl_weights; w->name; w++) {
    size_t length = strlen(w->name), head = 28 + 8 * w->rank, entry = (head + length + 7) / 8 * 8;
    if ((size_t)(net->weights - at) < entry) return SL_OTHER_NETWORK;
    int same = sl_number(at, 8) == w->start && sl_number(at + 8, 8) == w->bytes;
    same = same && sl_number(at + 16, 4) == w->dtype && sl_number(at + 20, 4) == w->rank;
    for (size_t d = 0; d < w->rank; d++) same = same && sl_number(at + 24 + 8 * d, 8) == w->shape[d];
    same = same && sl_number(at + head - 4, 4) == length && !memcmp(at + head, w->name, length);
    for (size_t k = head + length; k < entry; k++) same = same && !at[k];
    if (!same) return SL_OTHER_NETWORK;
    at += entry;
    const uint8_t *elements = net->weights + w->start;
    for (size_t k = 0; w->dtype == SL_BOOL && k < w->bytes; k++)
      if (elements[k] > 1) return SL_OTHER_VALUES;
    if (w->fixed && sl_checksum(0, elements, (w->bytes + 7) / 8 * 8) != w->sum) return SL_OTHER_VALUES;
  }
  while (at < net->weights)
    if (*at++) return SL_OTHER_NETWORK;
  return 0;
}
/* A mapped file takes no memory of the program. Elsewhere, or with -DSL_NO_MMAP, it is read. */
#if !defined(SL_NO_MMAP) && (defined(__unix__) || defined(__APPLE__)) && !defined(__EMSCRIPTEN__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
static int sl_read(struct NAME *net, const char *path) {
  struct stat about;
  /* opening a pipe would wait for a writer */
  if (stat(path, &about) || !S_ISREG(about.st_mode)) return SL_UNREADABLE;
  int file = open(path, O_RDONLY);
  if (file < 0) return SL_UNREADABLE;
  void *mapped = MAP_FAILED;
  if (!fstat(file, &about) && S_ISREG(about.st_mode) && (uint64_t)about.st_size <= SIZE_MAX) {
    net->size = (size_t)about.st_size;
    mapped = net->size ? mmap(NULL, net->size, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
  }
  close(file);
  if (mapped == MAP_FAILED) return SL_UNREADABLE;
  net->file = net->mapped = mapped;
  return 0;
}
static void sl_unmap(struct NAME *net) { if (net->mapped) munmap(net->mapped, net->size); }
#else
#include <stdio.h>
#if defined(__unix__) || defined(__APPLE__) || defined(__wasi__)
#include <sys/stat.h>
static int sl_is_file(const char *path) {
  struct stat about;
  return !stat(path, &about) && S_ISREG(about.st_mode);
}
#else
static int sl_is_file(const char *path) { return path != NULL; }
#endif
static int sl_read(struct NAME *net, const char *path) {
  /* opening a pipe would wait for a writer */
  FILE *file = sl_is_file(path) ? fopen(path, "rb") : NULL;
  if (!file) return SL_UNREADABLE;
  int code = 0;
  net->file = net->copy = sl_given_memory(net->host, SL_FILE_BYTES);
  if (!net->copy) code = SL_NO_MEMORY;
  else {
    net->size = fread(net->copy, 1, SL_FILE_BYTES, file);
    if (ferror(file)) code = SL_UNREADABLE;
    /* the head says another size then */
    if (net->size == SL_FILE_BYTES && getc(file) != EOF) net->size++;
  }
  fclose(file);
  return code;
}
static void sl_unmap(struct NAME *net) { (void)net; }
#endif

/* Opening and closing. */

static struct NAME *sl_opened(const schedlang_host *host) {
  struct NAME *net = sl_given_memory(host, sizeof *net);
  if (net) memset(net, 0, sizeof *net), net->host = host;
  return net;
}
static int sl_accepted(struct NAME *opened, int code, struct NAME **net) {
  if (!code) code = sl_check(opened);
  if (code) NAME_close(opened);
  else *net = opened;
  return code;
}
int NAME_open(const char *path, const schedlang_host *host, struct NAME **net) {
  if (!net) return SL_NOT_OPEN;
  *net = NULL;
  struct NAME *opened = sl_opened(host);
  if (!opened) return SL_NO_MEMORY;
  return sl_accepted(opened, path ? sl_read(opened, path) : SL_UNREADABLE, net);
}
int NAME_open_bytes(const void *bytes, size_t size, const schedlang_host *host, struct NAME **net) {
  if (!net) return SL_NOT_OPEN;
  *net = NULL;
  struct NAME *opened = sl_opened(host);
  if (!opened) return SL_NO_MEMORY;
  int code = 0;
  opened->size = bytes ? size : 0;
  opened->file = bytes;
  /* calls read elements of up to 8 bytes and whole vectors from their own addresses */
  if ((uintptr_t)bytes % 64 && opened->size == SL_FILE_BYTES) {
    opened->file = opened->copy = sl_given_memory(host, SL_FILE_BYTES);
    if (opened->copy) memcpy(opened->copy, bytes, size);
    else code = SL_NO_MEMORY;
  }
  return sl_accepted(opened, code, net);
}
void NAME_close(struct NAME *net) {
  if (!net) return;
  sl_unmap(net);
  sl_release(&net->copy);
  sl_release(&net->idle);
  sl_release(&net);
}
