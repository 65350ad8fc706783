// Vector vocabulary of the kernels, 8 lanes; see vec_avx512.h.
using VF = __m256;
using VI = __m256i;
constexpr int kLanes = 8;

BRISK_INLINE VF vzero() { return _mm256_setzero_ps(); }
BRISK_INLINE VF vset1(float x) { return _mm256_set1_ps(x); }
BRISK_INLINE VF vload(const float* p) { return _mm256_loadu_ps(p); }
BRISK_INLINE void vstore(float* p, VF v) { _mm256_storeu_ps(p, v); }
BRISK_INLINE void vstream(float* p, VF v) { _mm256_stream_ps(p, v); }  // p aligned
BRISK_INLINE __m256i lane_mask(int n) {  // n in 0..8
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
BRISK_INLINE VF vloadn(const float* p, int n) { return _mm256_maskload_ps(p, lane_mask(n)); }
BRISK_INLINE void vstoren(float* p, VF v, int n) { _mm256_maskstore_ps(p, lane_mask(n), v); }
BRISK_INLINE VF vfirst(VF v, int n, VF other) {
  return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(lane_mask(n)));
}

BRISK_INLINE VF vadd(VF a, VF b) { return _mm256_add_ps(a, b); }
BRISK_INLINE VF vsub(VF a, VF b) { return _mm256_sub_ps(a, b); }
BRISK_INLINE VF vmul(VF a, VF b) { return _mm256_mul_ps(a, b); }
BRISK_INLINE VF vdiv(VF a, VF b) { return _mm256_div_ps(a, b); }
BRISK_INLINE VF vsqrt(VF a) { return _mm256_sqrt_ps(a); }
BRISK_INLINE VF vmax(VF a, VF b) { return _mm256_max_ps(a, b); }
BRISK_INLINE VF vmin(VF a, VF b) { return _mm256_min_ps(a, b); }
BRISK_INLINE VF vabs(VF a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
BRISK_INLINE VF vneg(VF a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
BRISK_INLINE VF vfma(VF a, VF b, VF c) { return _mm256_fmadd_ps(a, b, c); }
BRISK_INLINE VF vfnma(VF a, VF b, VF c) { return _mm256_fnmadd_ps(a, b, c); }
BRISK_INLINE VF vround(VF a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
BRISK_INLINE VF vselect_lt(VF a, VF b, VF yes, VF no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
BRISK_INLINE VF vselect_nan(VF a, VF yes, VF no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, a, _CMP_UNORD_Q)); }
// In two steps, so that n = 128 and subnormal results work too.
BRISK_INLINE VF vscale2(VF p, VF n) {
  __m256i i = _mm256_cvtps_epi32(n);
  __m256i half = _mm256_srai_epi32(i, 1), rest = _mm256_sub_epi32(i, half);
  __m256i bias = _mm256_set1_epi32(127);
  VF a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  VF b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(p, a), b);
}
BRISK_INLINE float vreduce_add(VF v) {
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
BRISK_INLINE float vreduce_max(VF v) {
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

BRISK_INLINE VF vload_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
BRISK_INLINE VF vload_bf16(const uint16_t* p) {
  __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
BRISK_INLINE void vstore_f16(uint16_t* p, VF v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
BRISK_INLINE void vstore_bf16(uint16_t* p, VF v) {
  __m256i u = _mm256_castps_si256(v), high = _mm256_srli_epi32(u, 16);
  __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  __m256i r = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff)), 16);
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  r = _mm256_blendv_epi8(r, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)));
}
BRISK_INLINE VF vload_i8(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

BRISK_INLINE VI viset1(int32_t x) { return _mm256_set1_epi32(x); }
BRISK_INLINE VI viload(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
BRISK_INLINE VI viadd(VI a, VI b) { return _mm256_add_epi32(a, b); }
BRISK_INLINE VI vimul(VI a, VI b) { return _mm256_mullo_epi32(a, b); }
BRISK_INLINE VI viand(VI a, VI b) { return _mm256_and_si256(a, b); }
BRISK_INLINE VI vixor(VI a, VI b) { return _mm256_xor_si256(a, b); }
BRISK_INLINE VI vishl16(VI a) { return _mm256_slli_epi32(a, 16); }
BRISK_INLINE VI vishr4(VI a) { return _mm256_srli_epi32(a, 4); }
BRISK_INLINE VI vishr23(VI a) { return _mm256_srli_epi32(a, 23); }
BRISK_INLINE VI vf_bits(VF a) { return _mm256_castps_si256(a); }
BRISK_INLINE VF vi_as_f(VI a) { return _mm256_castsi256_ps(a); }
BRISK_INLINE VF vi_to_f(VI a) { return _mm256_cvtepi32_ps(a); }
BRISK_INLINE VI vf_to_i(VF a) { return _mm256_cvtps_epi32(a); }
BRISK_INLINE void vstore_i8(int8_t* p, VI v) {
  __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(h, h));
}
BRISK_INLINE int32_t vireduce_add(VI v) {
  __m128i b = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  b = _mm_add_epi32(b, _mm_shuffle_epi32(b, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(b, _mm_shuffle_epi32(b, 0xb1)));
}
template <int k>
BRISK_INLINE VI vbyte_top(VI v) {
  constexpr int step = 0x04000000, first = 0x00808080 + (k << 24);
  const VI pattern = _mm256_setr_epi32(first, first + step, first + 2 * step, first + 3 * step, first, first + step,
                                       first + 2 * step, first + 3 * step);
  return _mm256_shuffle_epi8(v, pattern);
}

#if defined(__AVXVNNI__)
constexpr bool kDotOffset = true;
struct Dot8 { VI w; };
BRISK_INLINE Dot8 dot8(VI stored) { return {stored}; }
BRISK_INLINE VI vdot(VI acc, Dot8 w, VI a) { return _mm256_dpbusd_avx_epi32(acc, w.w, a); }
BRISK_INLINE VI vdot4(VI acc, VI w, VI a) { return _mm256_dpbusd_avx_epi32(acc, w, a); }
#else
constexpr bool kDotOffset = false;
struct Dot8 { VI w, magnitude; };
BRISK_INLINE Dot8 dot8(VI stored) {
  VI s = _mm256_xor_si256(stored, _mm256_set1_epi8(static_cast<char>(0x80)));
  return {s, _mm256_abs_epi8(s)};
}
BRISK_INLINE VI vdot(VI acc, Dot8 w, VI a) {
  VI pairs = _mm256_maddubs_epi16(w.magnitude, _mm256_sign_epi8(a, w.w));
  return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
BRISK_INLINE VI vdot4(VI acc, VI w, VI a) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(w, a), _mm256_set1_epi16(1)));
}
#endif
