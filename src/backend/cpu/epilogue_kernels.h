// Ends of linear operators; included inside an ISA's namespace.

template <class F>
BRISK_INLINE void epilogue_rows(const EpilogueCall& c, const F& act) {
  const VF out_scale = vset1(c.out_scale);
  const int width = c.gated ? 16 : 32;
  for (int r = 0; r < c.rows; r++) {
    const float* acc = c.acc + r * 32;
    auto value = [&](int j) {
      VF v = vload(acc + j);
      if (c.scale) v = vmul(v, vload(c.scale + j));
      if (c.bias) v = vadd(v, vload(c.bias + j));
      return v;
    };
    for (int j = 0; j < width && j < c.n; j += kLanes) {
      int n = c.n - j < kLanes ? c.n - j : kLanes;
      VF v = act(value(j));
      if (c.gated) v = vmul(v, value(j + 16));
      v = vmul(v, out_scale);
      if (c.residual) v = vadd(v, vloadn(c.residual + r * c.ld_residual + j, n));
      if (n == kLanes && c.stream) vstream(c.y + r * c.ldy + j, v);
      else if (n == kLanes) vstore(c.y + r * c.ldy + j, v);
      else vstoren(c.y + r * c.ldy + j, v, n);
    }
  }
}
inline void epilogue(const EpilogueCall& c) {
  with_unary(c.act, [&](auto act) __attribute__((always_inline)) { epilogue_rows(c, act); });
  if (c.stream) _mm_sfence();  // such stores are not ordered by what tells the other threads that this one is done
}
