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
      VF e = vexp_small(vsub(vload(p), shift));
      sum = vadd(sum, e);
      vstore(p, e);
    }
    c.max[r] = largest;
    c.sum[r] = vreduce_add(sum);
  }
}

// The factors of all rows at once, rows in the lanes.
inline void attend_merge(const MergeCall& c) {
  const VF none = vset1(-__builtin_inff());
  alignas(64) float old[16], now[16];
  for (int r = 0; r < c.rows; r += kLanes) {
    int n = c.rows - r < kLanes ? c.rows - r : kLanes;
    VF before = vloadn(c.max + r, n), part = vloadn(c.part_max + r, n), m = vmax(before, part);
    // a row that sees nothing of this key block: times one, plus nothing; m - m would be NaN where both are -inf
    VF keep = vexp_small(vsub(before, m)), add = vexp_small(vsub(part, m));
    keep = vselect_lt(none, part, keep, vset1(1.0f));
    add = vselect_lt(none, part, add, vzero());
    vstore(old + r, keep);
    vstore(now + r, add);
    VF sums = vmul(vloadn(c.sum + r, n), keep);
    VF parts = vselect_lt(none, part, vloadn(c.part_sum + r, n), vzero());
    vstoren(c.sum + r, vfma(parts, add, sums), n);
    vstoren(c.max + r, m, n);
  }
  for (int r = 0; r < c.rows; r++) {
    if (c.part_max[r] == -__builtin_inff()) continue;
    VF a = vset1(old[r]), b = vset1(now[r]);
    for (int p = 0; p < c.panels; p++)
      for (int j = 0; j < 32; j += kLanes) {
        float* to = c.acc + (r * c.panels + p) * 32 + j;
        vstore(to, vfma(vload(c.part + (p * c.part_rows + r) * 32 + j), b, vmul(vload(to), a)));
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
