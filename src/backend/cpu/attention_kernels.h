// The parts of attention that are not matrix products; included inside an ISA's namespace. See attention.h.

inline void attend_softmax(const SoftmaxCall& c) {
  const VF none = vset1(-__builtin_inff());
  for (int r = 0; r < c.rows; r++) {
    int lo = c.lo[r], hi = c.hi[r];
    VF top = none;
    for (int j = 0; j < c.segments * 32; j += kLanes) {
      float* p = c.s + (j / 32 * c.rows + r) * 32 + j % 32;
      VF v = vload(p);
      if (c.softcap > 0) v = vmul(vtanh(vmul(v, vset1(1.0f / c.softcap))), vset1(c.softcap));
      if (j + kLanes > hi) v = vfirst(v, hi - j < 0 ? 0 : hi - j, none);
      if (j < lo) v = vfirst(none, lo - j > kLanes ? kLanes : lo - j, v);
      vstore(p, v);
      top = vmax(top, v);
    }
    float largest = hi > lo ? vreduce_max(top) : -__builtin_inff();
    VF shift = vset1(hi > lo ? largest : 0.0f), sum = vzero();
    for (int j = 0; j < c.segments * 32; j += kLanes) {
      float* p = c.s + (j / 32 * c.rows + r) * 32 + j % 32;
      VF e = vexp(vsub(vload(p), shift));
      sum = vadd(sum, e);
      vstore(p, e);
    }
    c.max[r] = largest;
    c.sum[r] = vreduce_add(sum);
  }
}

inline void attend_merge(const MergeCall& c) {
  for (int r = 0; r < c.rows; r++) {
    if (c.part_max[r] == -__builtin_inff()) continue;  // the row sees nothing of this key block
    float m = c.max[r] > c.part_max[r] ? c.max[r] : c.part_max[r];
    VF old = vexp(vset1(c.max[r] - m)), now = vexp(vset1(c.part_max[r] - m));
    alignas(64) float a[kLanes], b[kLanes];
    vstore(a, old);
    vstore(b, now);
    c.sum[r] = c.sum[r] * a[0] + c.part_sum[r] * b[0];
    c.max[r] = m;
    for (int p = 0; p < c.panels; p++)
      for (int j = 0; j < 32; j += kLanes) {
        float* to = c.acc + (r * c.panels + p) * 32 + j;
        vstore(to, vfma(vload(c.part + (p * c.part_rows + r) * 32 + j), now, vmul(vload(to), old)));
      }
  }
}

// out[n] = acc / sum; zero if the row saw no key.
inline void attend_finish(const float* acc, float sum, int n, float* out) {
  VF inverse = vset1(sum > 0 ? 1.0f / sum : 0.0f);
  for (int i = 0; i < n; i += kLanes) {
    int left = n - i < kLanes ? n - i : kLanes;
    vstoren(out + i, vmul(vload(acc + i), inverse), left);
  }
}
