// fp32, fp16 and bf16 weights; included inside an ISA's namespace.
// 12 x 2 accumulators of 16 lanes: 24 chains cover the latency of FMA (4 cycles, 2 a cycle), and a step loads 2 vectors
// and 12 broadcasts for 24 FMAs, inside the two loads a cycle that go with two FMAs. With 16 registers: 6 x 2.

// fp32 or fp16 weights; a unit is one k of 32 outputs.
template <class W, VF (*kLoad)(const W*)>
struct TileWide {
  static constexpr int kMaxRows = kLanes == 16 ? 12 : 6, kWholeRows = 3;
  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    const float* a = static_cast<const float*>(c.a);
    const W* w = reinterpret_cast<const W*>(c.w);
    VF y[R][V];
    load_acc<R, V>(y, c, first);
#pragma clang loop unroll_count(2)
    for (int64_t k = 0; k < c.k; k++) {
      VF b[V];
#pragma unroll
      for (int v = 0; v < V; v++) b[v] = kLoad(w + k * 32 + column<V>(v, first));
#pragma unroll
      for (int r = 0; r < R; r++) {
        VF x = vset1(a[r * c.lda + k]);
#pragma unroll
        for (int v = 0; v < V; v++) y[r][v] = vfma(x, b[v], y[r][v]);
      }
    }
    store_acc<R, V>(y, c, first);
  }
};

using TileF32 = TileWide<float, vload>;
using TileF16 = TileWide<uint16_t, vload_f16>;

// bf16 weights widened to fp32: the even k of a pair is the low half of a 32-bit lane.
struct TileBf16 {
  static constexpr int kMaxRows = kLanes == 16 ? 12 : 6, kWholeRows = 2;
  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    const float* a = static_cast<const float*>(c.a);
    const std::byte* w = c.w;
    VF y[R][V];
    load_acc<R, V>(y, c, first);
    const VI high = viset1(static_cast<int>(0xffff0000u));
    for (int64_t k = 0; k + 1 < c.k; k += 2, w += 128) {
      VI pair[V];
      VF b[V];
#pragma unroll
      for (int v = 0; v < V; v++) {
        pair[v] = viload(w + column<V>(v, first) * 4);
        b[v] = vi_as_f(vishl16(pair[v]));
      }
#pragma unroll
      for (int r = 0; r < R; r++) {
        VF x = vset1(a[r * c.lda + k]);
#pragma unroll
        for (int v = 0; v < V; v++) y[r][v] = vfma(x, b[v], y[r][v]);
      }
#pragma unroll
      for (int v = 0; v < V; v++) b[v] = vi_as_f(viand(pair[v], high));
#pragma unroll
      for (int r = 0; r < R; r++) {
        VF x = vset1(a[r * c.lda + k + 1]);
#pragma unroll
        for (int v = 0; v < V; v++) y[r][v] = vfma(x, b[v], y[r][v]);
      }
    }
    if (c.k % 2) {
#pragma unroll
      for (int v = 0; v < V; v++) {
        VF b = vi_as_f(vishl16(viload(w + column<V>(v, first) * 4)));
#pragma unroll
        for (int r = 0; r < R; r++) y[r][v] = vfma(vset1(a[r * c.lda + c.k - 1]), b, y[r][v]);
      }
    }
    store_acc<R, V>(y, c, first);
  }
};

#if defined(BRISK_HAS_BF16_DOT)
// bf16 weights times bf16 activations, two k an instruction; rows are padded with a zero to an even k.
struct TileBf16Dot {
  static constexpr int kMaxRows = 12, kWholeRows = 0;
  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    const uint16_t* a = static_cast<const uint16_t*>(c.a);
    VF y[R][V];
    load_acc<R, V>(y, c, first);
    for (int64_t k = 0; k < c.k; k += 2) {
      VI b[V];
#pragma unroll
      for (int v = 0; v < V; v++) b[v] = viload(c.w + k * 64 + column<V>(v, first) * 4);
#pragma unroll
      for (int r = 0; r < R; r++) {
        VI x = viset1(load_word(a + r * c.lda + k));
#pragma unroll
        for (int v = 0; v < V; v++) y[r][v] = vdot_bf16(y[r][v], b[v], x);
      }
    }
    store_acc<R, V>(y, c, first);
  }
};
#endif
