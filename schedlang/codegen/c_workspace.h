/* The workspace of a call. It stays for the next one; calls at the same time have others. */

static void *sl_workspace(struct NAME *net, int64_t bytes) {
  char *space = __atomic_exchange_n(&net->idle, NULL, __ATOMIC_ACQUIRE);
  int64_t has = 0;
  if (space) memcpy(&has, space, sizeof has);
  if (space && has < bytes) sl_release(&space), space = NULL;
  if (!space) {
    space = sl_given_memory(net->host, 64 + bytes);
    if (!space) return NULL;
    memcpy(space, &bytes, sizeof bytes);
  }
  return space + 64;
}
static void sl_leave(struct NAME *net, void *workspace) {
  char *space = (char *)workspace - 64;
  space = __atomic_exchange_n(&net->idle, space, __ATOMIC_ACQ_REL);
  sl_release(&space);
}
