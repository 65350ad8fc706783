// 4-bit weights times int8 activations; included inside an ISA's namespace. A granule holds k..k+3 in its low nibbles
// and k+4..k+7 in the high ones, so a mask and a shift give two unsigned operands for the dot product.
// Folding happens per F = min(group, 64) of k: group scale times activation scale, plus the group's term times the sum
// of the activations (in the form that ActSums names).

template <int G, GroupTerm kTerm>
struct TileInt4 {
  static constexpr int kMaxRows = kLanes == 16 ? 6 : 4, kWholeRows = 1;
  static constexpr int F = G < 64 ? G : 64;
  static constexpr int kHead = kTerm == GroupTerm::kSymmetric ? 64 : 128;

  template <int R, int V>
  BRISK_INLINE static void run(const TileCall& c, int first) {
    Rows<R, int8_t> x(c.a, c.lda);
    const std::byte* w = c.w;
    VF y[R][V];
    load_acc<R, V>(y, c, first);
    int64_t fold = 0;
    for (int64_t g = 0; g < c.k / G; g++) {
      prefetch_next(c, w, kHead + G * 16);
      const uint16_t* head = reinterpret_cast<const uint16_t*>(w);
      w += kHead;
      for (int f = 0; f < G / F; f++, fold++) {
        VI dot[R][V];
        BRISK_UNROLL
        for (int r = 0; r < R; r++) {
          int32_t start = kTerm == GroupTerm::kSymmetric
                              ? static_cast<const int32_t*>(c.a_sum)[r * c.ld_sum + fold] : 0;
          BRISK_UNROLL
          for (int v = 0; v < V; v++) dot[r][v] = viset1(start);
        }
        BRISK_UNROLL_BY(2)
        for (int s = 0; s < F / 8; s++, w += 128, x.advance(8)) step<R, V>(dot, w + column<V>(0, first) * 4, x);
        fold_in<R, V>(y, dot, c, head, fold, first);
      }
    }
    store_acc<R, V>(y, c, first);
  }

  // 8 k of a granule pair
  template <int R, int V>
  BRISK_INLINE static void step(VI (&dot)[R][V], const std::byte* w, const Rows<R, int8_t>& x) {
    const VI mask = viset1(0x0f0f0f0f);
    VI low[V], high[V];
    BRISK_UNROLL
    for (int v = 0; v < V; v++) {
      VI b = viload(w + column<V>(v, 0) * 4);
      low[v] = viand(b, mask);
      high[v] = viand(vishr4(b), mask);
    }
    BRISK_UNROLL
    for (int half = 0; half < 2; half++)
      BRISK_UNROLL
      for (int r = 0; r < R; r++) {
        VI four = viset1(load_word(x.at(r) + half * 4));
        BRISK_UNROLL
        for (int v = 0; v < V; v++) dot[r][v] = vdot4(dot[r][v], half ? high[v] : low[v], four);
        load_fence();
      }
  }

  template <int R, int V>
  BRISK_INLINE static void fold_in(VF (&y)[R][V], const VI (&dot)[R][V], const TileCall& c, const uint16_t* head,
                                   int64_t fold, int first) {
    const float* sum = static_cast<const float*>(c.a_sum);
    BRISK_UNROLL
    for (int v = 0; v < V; v++) {
      VF scale = vload_f16(head + column<V>(v, first)), term = vzero();
      if constexpr (kTerm != GroupTerm::kSymmetric) term = vload_f16(head + 32 + column<V>(v, first));
      BRISK_UNROLL
      for (int r = 0; r < R; r++) {
        VF t = vi_to_f(dot[r][v]);
        if constexpr (kTerm == GroupTerm::kZero) t = vfnma(term, vset1(sum[r * c.ld_sum + fold]), t);
        y[r][v] = vfma(vmul(t, scale), vset1(c.a_scale[r * c.ld_scale + fold * F / 64]), y[r][v]);
        if constexpr (kTerm == GroupTerm::kMinimum) y[r][v] = vfma(term, vset1(sum[r * c.ld_sum + fold]), y[r][v]);
      }
    }
  }
};
