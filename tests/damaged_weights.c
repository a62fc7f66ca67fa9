/* Open damaged copies of table.weights, as many as the argument says, and count the codes.

   Half of them are sealed again: their checksum is right, so that the checks behind it decide. A copy
   that opens runs; its head, its table and its indices must be those of the file. */
#include <stdio.h>
#include <stdlib.h>
/* the source of the network, with all that is static in it */
#include "included.h"

static uint64_t state = 20240601;
static uint64_t drawn(uint64_t below) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state % below;
}
static void sealed(uint8_t *file, size_t size) {
  if (size < 64 || size % 8) return;
  uint64_t sum = sl_checksum(sl_checksum(0, file, 56), file + 64, size - 64);
  memcpy(file + 56, &sum, 8);
}
static const uint64_t extremes[] = {0, 1, 63, 64, 255, 1u << 31, UINT64_MAX, INT64_MAX, UINT64_MAX - 63};

/* the elements that may be others: those of w, of which the program knows nothing */
static int may_differ(size_t at, size_t start) {
  for (const struct sl_weight *w = sl_weights; w->name; w++) {
    size_t first = start + w->start;
    if (at >= first && at < first + w->bytes) return !w->fixed;
  }
  /* bytes between weights are not read */
  return at >= start;
}
static size_t damaged(uint8_t *copy, const uint8_t *file, size_t size) {
  memcpy(copy, file, size);
  size_t start = sl_number(file + 40, 8), now = size;
  switch (drawn(7)) {
    case 0: /* cut off, mostly within the head and the table */
      return drawn(2) ? drawn(size) : drawn(start);
    case 1: /* longer */
      now = size + 1 + drawn(256);
      for (size_t k = size; k < now; k++) copy[k] = (uint8_t)drawn(256);
      break;
    case 2: /* bytes anywhere */
      for (uint64_t k = 0, n = 1 + drawn(8); k < n; k++) copy[drawn(size)] = (uint8_t)drawn(256);
      break;
    case 3: { /* a number of the head or of the table */
      size_t bytes = drawn(2) ? 8 : 4;
      memcpy(copy + drawn(start / bytes) * bytes, &extremes[drawn(9)], bytes);
      break;
    }
    case 4: { /* a range of zeros or ones */
      size_t first = drawn(size), length = 1 + drawn(size - first);
      memset(copy + first, drawn(2) ? 0 : 255, length);
      break;
    }
    case 5: /* an element */
      copy[start + drawn(size - start)] ^= (uint8_t)(1u << drawn(8));
      break;
    default: /* another file */
      for (size_t k = drawn(2) ? 8 : 0; k < size; k++) copy[k] = (uint8_t)drawn(256);
  }
  if (drawn(2)) sealed(copy, now);
  return now;
}

int main(int argc, char **argv) {
  FILE *opened = fopen("table.weights", "rb");
  uint8_t file[1 << 14], copy[1 << 15];
  size_t size = opened ? fread(file, 1, sizeof file, opened) : 0, start = sl_number(file + 40, 8);
  if (opened) fclose(opened);
  int files = argc > 1 ? atoi(argv[1]) : 0, wrong = 0, counts[10] = {0};
  for (int done = 0; done < files && size; done++) {
    size_t now = damaged(copy, file, size);
    /* behind the last byte of this block nothing may be read */
    uint8_t *bytes = malloc(now ? now : 1);
    memcpy(bytes, copy, now);
    table *net = NULL;
    int code;
    if (done % 10) code = table_open_bytes(bytes, now, NULL, &net);
    else {
      FILE *torn = fopen("torn", "wb");
      if (!torn || fwrite(bytes, 1, now, torn) != now || fclose(torn)) return 1;
      code = table_open("torn", NULL, &net);
    }
    if (code < 0 || code > 9 || (code != 0) != (net == NULL)) return 2;
    counts[code]++;
    if (!code) {
      float x[20] = {0}, y[20];
      wrong += now != size || table_run(net, x, y) != 0;
      for (size_t k = 0; k < size && now == size; k++)
        if (bytes[k] != file[k] && (k < 56 || k >= 64) && !may_differ(k, start)) wrong++;
    }
    table_close(net);
    free(bytes);
  }
  printf("files %d\nwrong %d\n", files, wrong);
  for (int code = 0; code < 10; code++) printf("%d %d\n", code, counts[code]);
  return 0;
}
