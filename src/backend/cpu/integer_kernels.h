// Products of unsigned by signed bytes, four k an instruction, exact; included inside an ISA's namespace.

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
BRISK_INLINE VI vdot_bytes(VI acc, VI u, VI s) { return vdot4(acc, u, s); }
#elif BRISK_CPU_LANES == 16
// Bytes of even and odd place as 16-bit numbers: pairs of products fit 32 bits, as maddubs' would not fit 16.
BRISK_INLINE VI vdot_bytes(VI acc, VI u, VI s) {
  VI even = _mm512_madd_epi16(_mm512_and_si512(u, _mm512_set1_epi32(0x00ff00ff)), _mm512_srai_epi16(_mm512_slli_epi16(s, 8), 8));
  VI odd = _mm512_madd_epi16(_mm512_srli_epi16(u, 8), _mm512_srai_epi16(s, 8));
  return _mm512_add_epi32(acc, _mm512_add_epi32(even, odd));
}
#else
BRISK_INLINE VI vdot_bytes(VI acc, VI u, VI s) {
  VI even = _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi32(0x00ff00ff)), _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
  VI odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
  return _mm256_add_epi32(acc, _mm256_add_epi32(even, odd));
}
#endif
#if BRISK_CPU_LANES == 16
BRISK_INLINE VI vf_as_i(VF v) { return _mm512_castps_si512(v); }
#else
BRISK_INLINE VI vf_as_i(VF v) { return _mm256_castps_si256(v); }
#endif

// A tile as TileF32, of words of four bytes each: rows are the unsigned side or the signed one, the panel the other.
template <bool kRowsUnsigned>
struct TileBytes {
  static constexpr int kMaxRows = kLanes == 16 ? 12 : 6, kWholeRows = 2;
  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    Rows<R, int32_t> x(c.a, c.lda);
    const std::byte* w = c.w + column<V>(0, first) * 4;
    VI y[R][V];
    BRISK_UNROLL
    for (int r = 0; r < R; r++)
      BRISK_UNROLL
      for (int v = 0; v < V; v++) y[r][v] = c.first ? viset1(0) : viload(c.acc + r * 32 + column<V>(v, first));
    for (int64_t k = 0; k < c.k; k++, w += 128, x.advance(1)) {
      VI b[V];
      BRISK_UNROLL
      for (int v = 0; v < V; v++) b[v] = viload(w + column<V>(v, 0) * 4);
      BRISK_UNROLL
      for (int r = 0; r < R; r++) {
        VI four = viset1(load_word(x.at(r)));
        BRISK_UNROLL
        for (int v = 0; v < V; v++) y[r][v] = kRowsUnsigned ? vdot_bytes(y[r][v], four, b[v]) : vdot_bytes(y[r][v], b[v], four);
        load_fence();
      }
    }
    BRISK_UNROLL
    for (int r = 0; r < R; r++)
      BRISK_UNROLL
      for (int v = 0; v < V; v++) vstore(c.acc + r * 32 + column<V>(v, first), vi_as_f(y[r][v]));
  }
};

// See IntegerFinishCall.
inline void finish_integers(const IntegerFinishCall& c) {
  auto load = [](const int32_t* p, int n) __attribute__((always_inline)) { return vf_as_i(vloadn(reinterpret_cast<const float*>(p), n)); };
  for (int r = 0; r < c.rows; r++) {
    VI add = viset1(c.row_add ? c.row_add[r] : 0);
    VF scale = vset1(c.scale), bias = vset1(c.row_bias ? c.row_bias[r] : 0.0f);
    for (int j = 0; j < c.n; j += kLanes) {
      int n = c.n - j < kLanes ? c.n - j : kLanes;
      VI v = viadd(viload(c.acc + r * 32 + j), add);
      if (c.column_add) v = viadd(v, load(c.column_add + j, n));
      if (c.row_factor) v = viadd(v, vimul(viset1(c.row_factor[r]), load(c.column_factor + j, n)));
      if (!c.y) {
        vstoren(reinterpret_cast<float*>(c.integers + r * c.ldy + j), vi_as_f(v), n);
        continue;
      }
      VF f = vmul(vi_to_f(v), scale);
      if (c.column_scale) f = vmul(f, vloadn(c.column_scale + j, n));
      f = vadd(f, bias);
      if (c.column_bias) f = vadd(f, vloadn(c.column_bias + j, n));
      vstoren(c.y + r * c.ldy + j, f, n);
    }
  }
}

inline void interleave_bytes(const uint8_t* rows, uint8_t* out) {
  for (int j = 0; j < 32; j++) {
    uint32_t word = rows[j] | uint32_t{rows[32 + j]} << 8 | uint32_t{rows[64 + j]} << 16 | uint32_t{rows[96 + j]} << 24;
    __builtin_memcpy(out + 4 * j, &word, 4);
  }
}

// A row of k bytes as words of unsigned ones, padded with zeros, and its sum.
inline int32_t prepare_bytes(const uint8_t* x, int64_t k, int flip, uint8_t* out, int64_t padded) {
  int32_t sum = 0;
  for (int64_t i = 0; i < k; i++) {
    out[i] = static_cast<uint8_t>(x[i] ^ flip);
    sum += out[i];
  }
  for (int64_t i = k; i < padded; i++) out[i] = 0;
  return sum;
}
