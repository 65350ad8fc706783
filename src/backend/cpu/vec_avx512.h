// Vector vocabulary of the kernels, 16 lanes. Included inside an ISA's namespace (see kernels_all.h); the same names
// exist in vec_avx2.h with 8 lanes. vfma(a, b, c) = a * b + c, rounded once.
using VF = __m512;
using VI = __m512i;
constexpr int kLanes = 16;

BRISK_INLINE VF vzero() { return _mm512_setzero_ps(); }
BRISK_INLINE VF vset1(float x) { return _mm512_set1_ps(x); }
BRISK_INLINE VF vload(const float* p) { return _mm512_loadu_ps(p); }
BRISK_INLINE void vstore(float* p, VF v) { _mm512_storeu_ps(p, v); }
BRISK_INLINE void vstream(float* p, VF v) { _mm512_stream_ps(p, v); }  // p aligned
BRISK_INLINE __mmask16 lane_mask(int n) { return static_cast<__mmask16>((1u << n) - 1); }  // n in 0..16
BRISK_INLINE VF vloadn(const float* p, int n) { return _mm512_maskz_loadu_ps(lane_mask(n), p); }
BRISK_INLINE void vstoren(float* p, VF v, int n) { _mm512_mask_storeu_ps(p, lane_mask(n), v); }
// Lanes below n from v, the others from other.
BRISK_INLINE VF vfirst(VF v, int n, VF other) { return _mm512_mask_blend_ps(lane_mask(n), other, v); }

BRISK_INLINE VF vadd(VF a, VF b) { return _mm512_add_ps(a, b); }
BRISK_INLINE VF vsub(VF a, VF b) { return _mm512_sub_ps(a, b); }
BRISK_INLINE VF vmul(VF a, VF b) { return _mm512_mul_ps(a, b); }
BRISK_INLINE VF vdiv(VF a, VF b) { return _mm512_div_ps(a, b); }
BRISK_INLINE VF vsqrt(VF a) { return _mm512_sqrt_ps(a); }
BRISK_INLINE VF vmax(VF a, VF b) { return _mm512_max_ps(a, b); }
BRISK_INLINE VF vmin(VF a, VF b) { return _mm512_min_ps(a, b); }
BRISK_INLINE VF vabs(VF a) { return _mm512_abs_ps(a); }
BRISK_INLINE VF vneg(VF a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
BRISK_INLINE VF vfma(VF a, VF b, VF c) { return _mm512_fmadd_ps(a, b, c); }
BRISK_INLINE VF vfnma(VF a, VF b, VF c) { return _mm512_fnmadd_ps(a, b, c); }
BRISK_INLINE VF vround(VF a) { return _mm512_roundscale_ps(a, 8); }  // to nearest even
BRISK_INLINE VF vselect_lt(VF a, VF b, VF yes, VF no) {             // a < b ? yes : no; unordered gives no
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
BRISK_INLINE VF vselect_nan(VF a, VF yes, VF no) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), no, yes); }
// p * 2^n for integral n
BRISK_INLINE VF vscale2(VF p, VF n) { return _mm512_scalef_ps(p, n); }
// Horizontal results fold the halves: 16 -> 8 -> 4 -> 2 -> 1.
BRISK_INLINE float vreduce_add(VF v) {
  __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
BRISK_INLINE float vreduce_max(VF v) {
  __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

BRISK_INLINE VF vload_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
BRISK_INLINE VF vload_bf16(const uint16_t* p) {
  __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
BRISK_INLINE void vstore_f16(uint16_t* p, VF v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
// Round to nearest even on the bits (subnormals kept, as in base/half.h), in all levels alike.
BRISK_INLINE void vstore_bf16(uint16_t* p, VF v) {
  __m512i u = _mm512_castps_si512(v);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i r = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff)), 16);
  __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  r = _mm512_mask_or_epi32(r, nan, _mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(r));
}
// 16 signed bytes
BRISK_INLINE VF vload_i8(const int8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

BRISK_INLINE VI viset1(int32_t x) { return _mm512_set1_epi32(x); }
BRISK_INLINE VI viload(const void* p) { return _mm512_loadu_si512(p); }
BRISK_INLINE VI viadd(VI a, VI b) { return _mm512_add_epi32(a, b); }
BRISK_INLINE VI vimul(VI a, VI b) { return _mm512_mullo_epi32(a, b); }
BRISK_INLINE VI viand(VI a, VI b) { return _mm512_and_si512(a, b); }
BRISK_INLINE VI vixor(VI a, VI b) { return _mm512_xor_si512(a, b); }
BRISK_INLINE VI vishl16(VI a) { return _mm512_slli_epi32(a, 16); }
BRISK_INLINE VI vishr4(VI a) { return _mm512_srli_epi32(a, 4); }
BRISK_INLINE VI vishr23(VI a) { return _mm512_srli_epi32(a, 23); }
BRISK_INLINE VI vf_bits(VF a) { return _mm512_castps_si512(a); }
BRISK_INLINE VF vi_as_f(VI a) { return _mm512_castsi512_ps(a); }
BRISK_INLINE VF vi_to_f(VI a) { return _mm512_cvtepi32_ps(a); }
BRISK_INLINE VI vf_to_i(VF a) { return _mm512_cvtps_epi32(a); }  // to nearest even
// Stores lanes as signed bytes (they must fit).
BRISK_INLINE void vstore_i8(int8_t* p, VI v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}
BRISK_INLINE int32_t vireduce_add(VI v) { return _mm512_reduce_add_epi32(v); }
// Byte k of each 32-bit lane moved to its top byte: as an integer the signed byte times 2^24.
template <int k>
BRISK_INLINE VI vbyte_top(VI v) {
  constexpr int step = 0x04000000, first = 0x00808080 + (k << 24);
  const VI pattern = _mm512_set4_epi32(first + 3 * step, first + 2 * step, first + step, first);
  return _mm512_shuffle_epi8(v, pattern);
}

// Dot products of 4 bytes a lane: acc + sum u8 * s8. kDotOffset says whether 8-bit weights enter as unsigned bytes
// (stored form, value + 128; the caller starts acc at -128 * sum of activations) or as signed values (starts at 0).
#if defined(__AVX512VNNI__)
constexpr bool kDotOffset = true;
struct Dot8 { VI w; };
BRISK_INLINE Dot8 dot8(VI stored) { return {stored}; }
BRISK_INLINE VI vdot(VI acc, Dot8 w, VI a) { return _mm512_dpbusd_epi32(acc, w.w, a); }
BRISK_INLINE VI vdot4(VI acc, VI w, VI a) { return _mm512_dpbusd_epi32(acc, w, a); }
#else
// maddubs saturates for u8 up to 255, so the sign goes to the activation: |w| <= 128, |a| <= 127 keep 2 products in 16 bits.
constexpr bool kDotOffset = false;
struct Dot8 { VI magnitude; __mmask64 negative; };
BRISK_INLINE Dot8 dot8(VI stored) {
  VI s = _mm512_xor_si512(stored, _mm512_set1_epi8(static_cast<char>(0x80)));
  return {_mm512_abs_epi8(s), _mm512_movepi8_mask(s)};
}
BRISK_INLINE VI vdot(VI acc, Dot8 w, VI a) {
  VI signed_a = _mm512_mask_sub_epi8(a, w.negative, _mm512_setzero_si512(), a);
  VI pairs = _mm512_maddubs_epi16(w.magnitude, signed_a);
  return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
BRISK_INLINE VI vdot4(VI acc, VI w, VI a) {  // w at most 15
  return _mm512_add_epi32(acc, _mm512_madd_epi16(_mm512_maddubs_epi16(w, a), _mm512_set1_epi16(1)));
}
#endif
#if defined(__AVX512BF16__)
#define BRISK_HAS_BF16_DOT 1
BRISK_INLINE VF vdot_bf16(VF acc, VI w, VI a) { return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)a); }
#endif
