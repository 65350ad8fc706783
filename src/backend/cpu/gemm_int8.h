// int8 weights; included inside an ISA's namespace.
//
// int8 activations: dot products are exact in 32 bits; per G of k, 64 or 32, they become floats and are folded, scaled,
// into the tile. 6 x 2 integer accumulators of 16 lanes cover the latency of the dot product (4-5 cycles, 2 a cycle) and
// leave room for as many floats in 32 registers; folding costs 3 operations (2 without scales) after G / 4 dots.

// kScales: each G of k has scales of its own in front of its codes; else the epilogue scales whole rows.
template <int G, bool kScales>
struct TileInt8 {
  static constexpr int kMaxRows = kLanes == 16 ? 6 : 4, kWholeRows = 1, kHead = kScales ? 64 : 0, kUnit = kHead + G * 32;
  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    Rows<R, int8_t> x(c.a, c.lda);
    const int32_t* sum = static_cast<const int32_t*>(c.a_sum);
    const std::byte* w = c.w;
    VF y[R][V];
    load_acc<R, V>(y, c, first);
    for (int64_t g = 0; g < c.k / G; g++) {
      prefetch_next(c, w, kUnit);
      VI dot[R][V];
      BRISK_UNROLL
      for (int r = 0; r < R; r++)
        BRISK_UNROLL
        for (int v = 0; v < V; v++) dot[r][v] = viset1(kDotOffset ? sum[r * c.ld_sum + g] : 0);
      const std::byte* codes = w + kHead + column<V>(0, first) * 4;
      BRISK_UNROLL_BY(8)
      for (int s = 0; s < G / 4; s++) dot_step<R, V>(dot, codes + s * 128, x, s * 4);
      BRISK_UNROLL
      for (int v = 0; v < V; v++) {
        VF scale = kScales ? vload_f16(reinterpret_cast<const uint16_t*>(w) + column<V>(v, first)) : vzero();
        BRISK_UNROLL
        for (int r = 0; r < R; r++) {
          VF part = kScales ? vmul(vi_to_f(dot[r][v]), scale) : vi_to_f(dot[r][v]);
          y[r][v] = vfma(part, vset1(c.a_scale[r * c.ld_scale + g * G / 64]), y[r][v]);
        }
      }
      x.advance(G);
      w += kUnit;
    }
    store_acc<R, V>(y, c, first);
  }
};

// Float activations. A weight byte is moved to the top of its 32-bit lane and converted, which gives value * 2^24
// exactly with one shuffle and one conversion; the power of two comes off where a sum is finished.
constexpr float kUp24 = 16777216.0f, kDown24 = 1.0f / 16777216.0f;

template <int kk, int R, int V>
BRISK_INLINE void int8w_step(VF (&y)[R][V], const VI (&b)[V], const Rows<R, float>& x) {
  VF w[V];
  BRISK_UNROLL
  for (int v = 0; v < V; v++) w[v] = vi_to_f(vbyte_top<kk>(b[v]));
  fma_step<R, V>(y, w, x, kk);
}
// n of the 4 k of one granule pair; x points at the first.
template <int R, int V>
BRISK_INLINE void int8w_granule(VF (&y)[R][V], const std::byte* w, const Rows<R, float>& x, int64_t n) {
  const VI flip = viset1(static_cast<int>(0x80808080u));
  VI b[V];
  BRISK_UNROLL
  for (int v = 0; v < V; v++) b[v] = vixor(viload(w + column<V>(v, 0) * 4), flip);
  int8w_step<0>(y, b, x);
  if (n > 1) int8w_step<1>(y, b, x);
  if (n > 2) int8w_step<2>(y, b, x);
  if (n > 3) int8w_step<3>(y, b, x);
}

struct TileInt8wChannel {
  static constexpr int kMaxRows = kLanes == 16 ? 12 : 5, kWholeRows = 1;
  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    Rows<R, float> x(c.a, c.lda);
    const std::byte* w = c.w + column<V>(0, first) * 4;
    VF y[R][V];
    load_acc<R, V>(y, c, first);
    BRISK_UNROLL
    for (int r = 0; r < R; r++)
      BRISK_UNROLL
      for (int v = 0; v < V; v++) y[r][v] = vmul(y[r][v], vset1(kUp24));
    int64_t k = c.k;
    for (; k >= 4; k -= 4, w += 128, x.advance(4)) int8w_granule<R, V>(y, w, x, 4);
    if (k) int8w_granule<R, V>(y, w, x, k);
    BRISK_UNROLL
    for (int r = 0; r < R; r++)
      BRISK_UNROLL
      for (int v = 0; v < V; v++) y[r][v] = vmul(y[r][v], vset1(kDown24));
    store_acc<R, V>(y, c, first);
  }
};

template <int G>
struct TileInt8wGroup {
  static constexpr int kMaxRows = kLanes == 16 ? 6 : 2, kWholeRows = 1, kUnit = 64 + G * 32;
  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    Rows<R, float> x(c.a, c.lda);
    const std::byte* w = c.w;
    VF y[R][V];
    load_acc<R, V>(y, c, first);
    for (int64_t k = 0; k < c.k; k += G, w += kUnit) {
      prefetch_next(c, w, kUnit);
      VF part[R][V];
      BRISK_UNROLL
      for (int r = 0; r < R; r++)
        BRISK_UNROLL
        for (int v = 0; v < V; v++) part[r][v] = vzero();
      int64_t n = c.k - k < G ? c.k - k : G;
      const std::byte* codes = w + 64 + column<V>(0, first) * 4;
      for (; n >= 4; n -= 4, codes += 128, x.advance(4)) int8w_granule<R, V>(part, codes, x, 4);
      if (n) int8w_granule<R, V>(part, codes, x, n);
      BRISK_UNROLL
      for (int v = 0; v < V; v++) {
        VF scale = vmul(vload_f16(reinterpret_cast<const uint16_t*>(w) + column<V>(v, first)), vset1(kDown24));
        BRISK_UNROLL
        for (int r = 0; r < R; r++) y[r][v] = vfma(part[r][v], scale, y[r][v]);
      }
    }
    store_acc<R, V>(y, c, first);
  }
};
