/* Denormal numbers as 0, in a thread: the mode before, and the way back to it. */

#if defined(__x86_64__)
SL sl_i64 sl_restore_mode_i64(sl_i64 mode) {
  __builtin_ia32_ldmxcsr((unsigned)mode);
  return mode;
}
SL sl_i64 sl_flush_denormals(void) {
  sl_i64 mode = __builtin_ia32_stmxcsr();
  sl_restore_mode_i64(mode | 0x8040);
  return mode;
}
#elif defined(__aarch64__)
SL sl_i64 sl_restore_mode_i64(sl_i64 mode) {
  __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
  return mode;
}
SL sl_i64 sl_flush_denormals(void) {
  sl_i64 mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode) : : "memory");
  sl_restore_mode_i64(mode | 1 << 24);
  return mode;
}
#else
SL sl_i64 sl_restore_mode_i64(sl_i64 mode) { return mode; }
SL sl_i64 sl_flush_denormals(void) { return 0; }
#endif
