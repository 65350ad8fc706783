// fp32, fp16 and bf16 weights; included inside an ISA's namespace.
// 12 x 2 accumulators of 16 lanes: 24 chains cover the latency of FMA (4 cycles, 2 a cycle), and a step loads 2 vectors
// and 12 broadcasts for 24 FMAs, inside the two loads a cycle that go with two FMAs. With 16 registers: 6 x 2.

constexpr int kAhead = 16;  // so many k at a time the next panel's are asked for

// fp32 or fp16 weights; a unit is one k of 32 outputs.
struct LoadF32 {
  using W = float;
  BRISK_INLINE static VF load(const W* p) { return vload(p); }
};
struct LoadF16 {
  using W = uint16_t;
  BRISK_INLINE static VF load(const W* p) { return vload_f16(p); }
};
template <class Load>
struct TileWide {
  using W = typename Load::W;
  static constexpr int kMaxRows = kLanes == 16 ? 12 : 6, kWholeRows = 3;
  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    Rows<R, float> x(c.a, c.lda);
    const W* w = reinterpret_cast<const W*>(c.w) + column<V>(0, first);
    VF y[R][V];
    load_acc<R, V>(y, c, first);
    int64_t k = c.k;
    if constexpr (R == 1) {
      for (; k >= 2; k -= 2, w += 64, x.advance(2)) {
        step<R, V>(y, w, x, 0);
        step<R, V>(y, w + 32, x, 1);
      }
    }
    for (; k >= kAhead; k -= kAhead) {
      if (first == 0) prefetch_next(c, reinterpret_cast<const std::byte*>(w), kAhead * 32 * sizeof(W));
      for (int i = 0; i < kAhead; i += 2, w += 64, x.advance(2)) {
        step<R, V>(y, w, x, 0);
        step<R, V>(y, w + 32, x, 1);
      }
    }
    for (; k > 0; k--, w += 32, x.advance(1)) step<R, V>(y, w, x, 0);
    store_acc<R, V>(y, c, first);
  }

  template <int R, int V>
  BRISK_INLINE static void step(VF (&y)[R][V], const W* w, const Rows<R, float>& x, int64_t offset) {
    VF b[V];
    BRISK_UNROLL
    for (int v = 0; v < V; v++) b[v] = Load::load(w + column<V>(v, 0));
    fma_step<R, V>(y, b, x, offset);
  }
};

using TileF32 = TileWide<LoadF32>;
using TileF16 = TileWide<LoadF16>;

// bf16 weights widened to fp32: the even k of a pair is the low half of a 32-bit lane.
struct TileBf16 {
  static constexpr int kMaxRows = kLanes == 16 ? 12 : 6, kWholeRows = 2;
  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    Rows<R, float> x(c.a, c.lda);
    const std::byte* w = c.w + column<V>(0, first) * 4;
    VF y[R][V];
    load_acc<R, V>(y, c, first);
    int64_t k = c.k;
    for (; k > 1; w += 128, x.advance(2), k -= 2) {
      if (first == 0 && k % kAhead == 0) prefetch_next(c, w, kAhead * 64);
      step<R, V>(y, w, x, 0);
      step<R, V>(y, w, x, 1);
    }
    if (k) step<R, V>(y, w, x, 0);
    store_acc<R, V>(y, c, first);
  }

  template <int R, int V>
  BRISK_INLINE static void step(VF (&y)[R][V], const std::byte* w, const Rows<R, float>& x, int odd) {
    const VI high = viset1(static_cast<int>(0xffff0000u));
    VF b[V];
    BRISK_UNROLL
    for (int v = 0; v < V; v++) {
      VI pair = viload(w + column<V>(v, 0) * 4);
      b[v] = vi_as_f(odd ? viand(pair, high) : vishl16(pair));
    }
    fma_step<R, V>(y, b, x, odd);
  }
};

#if defined(BRISK_HAS_BF16_DOT)
// bf16 weights times bf16 activations, two k an instruction; rows are padded with a zero to an even k.
struct TileBf16Dot {
  static constexpr int kMaxRows = 12, kWholeRows = 0;
  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    Rows<R, uint16_t> x(c.a, c.lda);
    const std::byte* w = c.w + column<V>(0, first) * 4;
    VF y[R][V];
    load_acc<R, V>(y, c, first);
    for (int64_t k = 0; k < c.k; k += 2, w += 128, x.advance(2)) {
      if (k % kAhead == 0) prefetch_next(c, w, kAhead * 64);
      VI b[V];
      BRISK_UNROLL
      for (int v = 0; v < V; v++) b[v] = viload(w + column<V>(v, 0) * 4);
      BRISK_UNROLL
      for (int r = 0; r < R; r++) {
        VI pair = viset1(load_word(x.at(r)));
        BRISK_UNROLL
        for (int v = 0; v < V; v++) y[r][v] = vdot_bf16(y[r][v], b[v], pair);
        load_fence();
      }
    }
    store_acc<R, V>(y, c, first);
  }
};
#endif
