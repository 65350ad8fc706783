// Windows over planes: panels of convolution operands, depthwise sums, pools; included inside an ISA's namespace.

// Lanes [low, high) of a vector, and what a piece loads: p[step * lane] for those lanes, the others from `other`.
#if BRISK_CPU_LANES == 16
using VM = __mmask16;
BRISK_INLINE VM lanes_between(int low, int high) { return static_cast<VM>(((1u << high) - 1) & ~((1u << low) - 1)); }
BRISK_INLINE VF vload_into(VF other, const float* p, VM m) { return _mm512_mask_loadu_ps(other, m, p); }
struct EvenMask { __mmask16 a, b; };
BRISK_INLINE EvenMask even_mask(int low, int high) {
  uint64_t in = ((uint64_t{1} << 2 * high) - 1) & ~((uint64_t{1} << 2 * low) - 1) & 0x55555555u;
  return {static_cast<__mmask16>(in), static_cast<__mmask16>(in >> 16)};
}
BRISK_INLINE VF vload_even(const float* p, const EvenMask& m) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(_mm512_maskz_loadu_ps(m.a, p), even, _mm512_maskz_loadu_ps(m.b, p + 16));
}
BRISK_INLINE VF vor(VF a, VF b) { return _mm512_or_ps(a, b); }
#else
using VM = __m256i;
BRISK_INLINE VM lanes_between(int low, int high) { return _mm256_andnot_si256(lane_mask(low), lane_mask(high)); }
BRISK_INLINE VF vload_into(VF other, const float* p, VM m) { return _mm256_or_ps(other, _mm256_maskload_ps(p, m)); }
struct EvenMask { __m256i a, b; };
BRISK_INLINE EvenMask even_mask(int low, int high) {
  alignas(32) int m[16];
  for (int i = 0; i < 16; i++) m[i] = i % 2 == 0 && i / 2 >= low && i / 2 < high ? -1 : 0;
  return {_mm256_load_si256(reinterpret_cast<const __m256i*>(m)), _mm256_load_si256(reinterpret_cast<const __m256i*>(m + 8))};
}
BRISK_INLINE VF vload_even(const float* p, const EvenMask& m) {
  __m256 s = _mm256_shuffle_ps(_mm256_maskload_ps(p, m.a), _mm256_maskload_ps(p + 8, m.b), 0x88);
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(s), 0xd8));
}
BRISK_INLINE VF vor(VF a, VF b) { return _mm256_or_ps(a, b); }
#endif

// One vector of a panel over all channels: `n` pieces that share no lane.
BRISK_INLINE void pack_vector(const WindowPackCall& c, const WindowPiece* piece, int n, int first, float* out) {
  const float* x = c.x;
  if (n == 1 && piece->step == 1) {
    const float* p = x + piece->offset;
    VM m = lanes_between(piece->low - first, piece->high - first);
    if (piece->high - piece->low == kLanes)
      for (int64_t i = 0; i < c.channels; i++, p += c.plane, out += kPanel) vstore(out, vload(p));
    else
      for (int64_t i = 0; i < c.channels; i++, p += c.plane, out += kPanel) vstore(out, vload_into(vzero(), p, m));
    return;
  }
  VM masks[kLanes];
  EvenMask even[kLanes];
  bool strided = false;
  for (int k = 0; k < n; k++) {
    strided |= piece[k].step > 2;
    masks[k] = lanes_between(piece[k].low - first, piece[k].high - first);
    if (piece[k].step == 2) even[k] = even_mask(piece[k].low - first, piece[k].high - first);
  }
  for (int64_t i = 0; i < c.channels; i++, x += c.plane, out += kPanel) {
    if (strided) {
      vstore(out, vzero());
      for (int k = 0; k < n; k++) {
        const float* p = x + piece[k].offset;
        for (int j = piece[k].low - first; j < piece[k].high - first; j++) out[j] = p[j * piece[k].step];
      }
      continue;
    }
    VF v = vzero();
    for (int k = 0; k < n; k++)
      v = piece[k].step == 1 ? vload_into(v, x + piece[k].offset, masks[k]) : vor(v, vload_even(x + piece[k].offset, even[k]));
    vstore(out, v);
  }
}

// A tap of a window for 32 places and some channels.
inline void pack_window(const WindowPackCall& c) {
  const WindowPiece* piece = c.pieces;
  const WindowPiece* end = piece + c.count;
  for (int first = 0; first < kPanel; first += kLanes) {
    const WindowPiece* last = piece;
    while (last < end && last->low < first + kLanes) last++;
    pack_vector(c, piece, static_cast<int>(last - piece), first, c.out + first);
    piece = last;
  }
}

// A tile whose panel is nowhere: the 32 values of each k lie where its offset says.
struct TileScattered {
  static constexpr int kMaxRows = kLanes == 16 ? 12 : 6, kWholeRows = 3;
  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    Rows<R, float> x(c.a, c.lda);
    const float* w = reinterpret_cast<const float*>(c.w) + column<V>(0, first);
    VF y[R][V];
    load_acc<R, V>(y, c, first);
    for (int64_t k = 0; k < c.k; k++, x.advance(1)) {
      const float* at = w + c.offset[k];
      VF b[V];
      BRISK_UNROLL
      for (int v = 0; v < V; v++) b[v] = vload(at + column<V>(v, 0));
      fma_step<R, V>(y, b, x, 0);
    }
    store_acc<R, V>(y, c, first);
  }
};

// y[r][j] = act(acc[r][j] + bias[r] + residual) for n columns (see FinishCall).
template <class F>
BRISK_INLINE void finish_with(const FinishCall& c, const F& act) {
  for (int r = 0; r < c.rows; r++) {
    VF row_bias = vset1(c.row_bias ? c.row_bias[r] : 0.0f);
    for (int64_t j = 0; j < c.n; j += kLanes) {
      int n = c.n - j < kLanes ? static_cast<int>(c.n - j) : kLanes;
      VF v = vmul(vload(c.acc + r * c.ld_acc + j), vset1(c.scale));
      v = vadd(v, row_bias);
      if (c.column_bias) v = vadd(v, vloadn(c.column_bias + j, n));
      VF rest = c.residual ? vloadn(c.residual + r * c.ldy + j, n) : vzero();
      if (c.residual && !c.residual_last) v = vadd(v, rest);
      v = act(v);
      if (c.residual && c.residual_last) v = vadd(v, rest);
      if (n == kLanes) vstore(c.y + r * c.ldy + j, v);
      else vstoren(c.y + r * c.ldy + j, v, n);
    }
  }
}
inline void finish(const FinishCall& c) {
  with_unary(c.act, [&](auto act) __attribute__((always_inline)) { finish_with(c, act); });
}

// y[i] = start + sum over taps of w[t] * x[offset[t] + i], i < n rounded up to vectors (x and y have room).
template <int V>
BRISK_INLINE void correlate_step(const float* x, const int32_t* offset, const float* w, int taps, float start, float* y) {
  VF s[V];
  BRISK_UNROLL
  for (int v = 0; v < V; v++) s[v] = vset1(start);
  for (int t = 0; t < taps; t++) {
    const float* p = x + offset[t];
    VF k = vset1(w[t]);
    BRISK_UNROLL
    for (int v = 0; v < V; v++) s[v] = vfma(k, vload(p + v * kLanes), s[v]);
  }
  BRISK_UNROLL
  for (int v = 0; v < V; v++) vstore(y + v * kLanes, s[v]);
}
inline void correlate(const float* x, const int32_t* offset, const float* w, int taps, float start, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + 8 * kLanes <= n; i += 8 * kLanes) correlate_step<8>(x + i, offset, w, taps, start, y + i);
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) correlate_step<2>(x + i, offset, w, taps, start, y + i);
  for (; i < n; i += kLanes) correlate_step<1>(x + i, offset, w, taps, start, y + i);
}

// The same with the largest instead of the sum.
inline void largest_of(const float* x, const int32_t* offset, int taps, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i += kLanes) {
    VF s = vload(x + offset[0] + i);
    for (int t = 1; t < taps; t++) s = vmax(vload(x + offset[t] + i), s);
    vstore(y + i, s);
  }
}

// 32 rows of b, each read along its own row, become columns of a panel: out[k][j] = b[j][k].
inline void pack_transposed(const float* b, int64_t ldb, int columns, int64_t k, float* out) {
  int64_t i = 0;
  if (columns < kPanel) {
    for (int64_t r = 0; r < k; r++)
      for (int j = 0; j < kPanel; j++) out[r * kPanel + j] = j < columns ? b[j * ldb + r] : 0.0f;
    return;
  }
  for (; i + 8 <= k; i += 8)
    for (int j = 0; j < kPanel; j += 8) {
      __m256 r[8], t[8];
      BRISK_UNROLL
      for (int q = 0; q < 8; q++) r[q] = _mm256_loadu_ps(b + (j + q) * ldb + i);
      BRISK_UNROLL
      for (int q = 0; q < 4; q++) {
        t[2 * q] = _mm256_unpacklo_ps(r[2 * q], r[2 * q + 1]);
        t[2 * q + 1] = _mm256_unpackhi_ps(r[2 * q], r[2 * q + 1]);
      }
      BRISK_UNROLL
      for (int q = 0; q < 2; q++) {
        r[4 * q] = _mm256_shuffle_ps(t[4 * q], t[4 * q + 2], 0x44);
        r[4 * q + 1] = _mm256_shuffle_ps(t[4 * q], t[4 * q + 2], 0xee);
        r[4 * q + 2] = _mm256_shuffle_ps(t[4 * q + 1], t[4 * q + 3], 0x44);
        r[4 * q + 3] = _mm256_shuffle_ps(t[4 * q + 1], t[4 * q + 3], 0xee);
      }
      BRISK_UNROLL
      for (int q = 0; q < 4; q++) {
        _mm256_storeu_ps(out + (i + q) * kPanel + j, _mm256_permute2f128_ps(r[q], r[q + 4], 0x20));
        _mm256_storeu_ps(out + (i + q + 4) * kPanel + j, _mm256_permute2f128_ps(r[q], r[q + 4], 0x31));
      }
    }
  for (; i < k; i++)
    for (int j = 0; j < kPanel; j++) out[i * kPanel + j] = b[j * ldb + i];
}

// 32 columns of b, row by row.
inline void pack_straight(const float* b, int64_t ldb, int columns, int64_t k, float* out) {
  for (int64_t r = 0; r < k; r++, b += ldb, out += kPanel)
    for (int j = 0; j < kPanel; j += kLanes) {
      int n = columns - j < 0 ? 0 : columns - j < kLanes ? columns - j : kLanes;
      vstore(out + j, n == kLanes ? vload(b + j) : vload_into(vzero(), b + j, lanes_between(0, n)));
    }
}
