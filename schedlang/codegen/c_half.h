/* Half precision: an element of an array is 16 bits; a value is a float that holds one. */

#if defined(__FLT16_MANT_DIG__)
/* the bits pass through a barrier, or GCC leaves out both conversions */
SL sl_f16 sl_half_of_bits(uint16_t bits) {
  __extension__ _Float16 h;
  __asm__("" : "+r"(bits));
  memcpy(&h, &bits, 2);
  return (sl_f16)h;
}
SL sl_f16 sl_half_from_f64(double x) {
  __extension__ _Float16 h = x;
  uint16_t bits;
  memcpy(&bits, &h, 2);
  return sl_half_of_bits(bits);
}
SL sl_f16 sl_half(float x) {
  __extension__ _Float16 h = x;
  uint16_t bits;
  memcpy(&bits, &h, 2);
  return sl_half_of_bits(bits);
}
SL sl_f16 sl_half_get(uint16_t bits) {
  __extension__ _Float16 h;
  memcpy(&h, &bits, 2);
  return (sl_f16)h;
}
SL uint16_t sl_half_put(float x) {
  __extension__ _Float16 h = x;
  uint16_t bits;
  memcpy(&bits, &h, 2);
  return bits;
}
#else
SL sl_f16 sl_half_get(uint16_t bits) {
  uint32_t e = bits >> 10 & 31, m = bits & 0x3ff;
  uint32_t wide = (uint32_t)(bits >> 15) << 31 | (e < 31 ? e + 112 : 255) << 23 | m << 13;
  float x;
  memcpy(&x, &wide, 4);
  return e ? x : copysignf((float)m * 0x1p-24f, x);
}
SL uint16_t sl_half_bits(double x) {
  uint64_t wide, m;
  memcpy(&wide, &x, 8);
  uint16_t sign = (uint16_t)(wide >> 48 & 0x8000);
  int e = (int)(wide >> 52 & 0x7ff) - 1008, cut = 42;
  if (x != x) return sign | 0x7e00 | (wide >> 42 & 0x3ff);
  if (e > 30 || e < -10) return sign | (e > 30 ? 0x7c00 : 0);
  m = (wide & ((1ULL << 52) - 1)) | 1ULL << 52;
  if (e > 0) m += (uint64_t)(e - 1) << 52;
  else cut += 1 - e;
  uint64_t rest = m & ((1ULL << cut) - 1), tie = 1ULL << (cut - 1), bits = m >> cut;
  return sign | (uint16_t)(bits + (rest > tie || (rest == tie && bits & 1)));
}
SL uint16_t sl_half_put(float x) { return sl_half_bits(x); }
SL sl_f16 sl_half_of_bits(uint16_t bits) { return sl_half_get(bits); }
SL sl_f16 sl_half_from_f64(double x) { return sl_half_get(sl_half_bits(x)); }
SL sl_f16 sl_half(float x) { return sl_half_get(sl_half_bits(x)); }
#endif

/* bfloat16: the upper half of a float. Rounded to nearest, ties to even; a NaN stays one. */

SL sl_bf16 sl_bfloat(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits = x == x ? bits + 0x7fff + (bits >> 16 & 1) : bits | 0x400000;
  bits &= 0xffff0000;
  memcpy(&x, &bits, 4);
  return x;
}
/* the bits that a float drops only decide ties: one bit stands for them */
SL sl_bf16 sl_bfloat_from_f64(double x) {
  float f = (float)x;
  double back = f;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  bits -= fabs(back) > fabs(x);
  bits |= back < x || back > x;
  memcpy(&f, &bits, 4);
  return sl_bfloat(f);
}
SL sl_bf16 sl_bfloat_from_i64(sl_i64 x) {
  sl_i64 odd = (x & ~(sl_i64)0xffff) | (x & 0xffff ? 0x8000 : 0);
  return sl_bfloat_from_f64((double)(x >= 1LL << 40 || x <= -(1LL << 40) ? odd : x));
}
SL sl_bf16 sl_bfloat_from_u64(sl_u64 x) {
  sl_u64 odd = (x & ~(sl_u64)0xffff) | (x & 0xffff ? 0x8000 : 0);
  return sl_bfloat_from_f64((double)(x >= 1ULL << 40 ? odd : x));
}
SL sl_bf16 sl_bfloat_get(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float x;
  memcpy(&x, &wide, 4);
  return x;
}
SL uint16_t sl_bfloat_put(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return (uint16_t)(bits >> 16);
}
