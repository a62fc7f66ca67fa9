/* The places of arrays between kernels at the sizes of a call: the largest array first, each in the
   smallest gap between those that are in use at the same time. */

struct sl_array {
  int64_t shape[SL_MOST_DIMENSIONS];
  int rank, width, first, last; /* in use from the first to the last call of a kernel */
};
/* the bytes of all arrays, or -1 if there are too many; the first byte of each, and its elements */
static int64_t sl_planned(const struct sl_array *arrays, int64_t *places) {
  int64_t sizes[SL_ARRAYS], peak = 64;
  int placed[SL_ARRAYS], is_placed[SL_ARRAYS] = {0};
  for (int k = 0; k < SL_ARRAYS; k++) {
    int64_t count = 1;
    for (int d = 0; d < arrays[k].rank; d++) {
      if (arrays[k].shape[d] < 0) return -1;
      if (__builtin_mul_overflow(count, arrays[k].shape[d], &count)) return -1;
    }
    places[2 * k + 1] = count;
    if (count > INT64_MAX / 64 / SL_ARRAYS / arrays[k].width) return -1;
    sizes[k] = (count * arrays[k].width + 63) / 64 * 64;
  }
  for (int done = 0; done < SL_ARRAYS; done++) {
    int next = -1, at = done;
    for (int k = 0; k < SL_ARRAYS; k++) {
      int larger = next < 0 || sizes[k] > sizes[next];
      larger = larger || (sizes[k] == sizes[next] && arrays[k].first < arrays[next].first);
      if (!is_placed[k] && larger) next = k;
    }
    int64_t end = 0, start = -1, smallest = INT64_MAX;
    for (int j = 0; j < done; j++) {
      int other = placed[j];
      if (arrays[other].first > arrays[next].last || arrays[next].first > arrays[other].last) continue;
      int64_t gap = places[2 * other] - end, stop = places[2 * other] + sizes[other];
      if (gap >= sizes[next] && gap < smallest) smallest = gap, start = end;
      if (stop > end) end = stop;
    }
    if (start < 0) start = end;
    places[2 * next] = start;
    is_placed[next] = 1;
    if (start + sizes[next] > peak) peak = start + sizes[next];
    for (; at > 0 && places[2 * placed[at - 1]] > start; at--) placed[at] = placed[at - 1];
    placed[at] = next;
  }
  return peak;
}
