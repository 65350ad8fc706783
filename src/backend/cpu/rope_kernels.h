// Rotary embedding; included inside an ISA's namespace.

// sin and cos together: x = q pi/2 + r with pi/2 in three parts (Cody and Waite), polynomials on |r| <= pi/4 (Cephes).
// Good to 2 ulp of 1 for |x| below 1e5.
BRISK_INLINE void vsincos(VF x, VF& s, VF& c) {
  VF q = vround(vmul(x, vset1(0.636619772f)));
  VF r = vfnma(q, vset1(1.57079625129699707031f), x);
  r = vfnma(q, vset1(7.54978941586159635335e-8f), r);
  r = vfnma(q, vset1(5.39030285815811905290e-15f), r);
  VF z = vmul(r, r);
  VF ps = vfma(z, vset1(-1.9515295891e-4f), vset1(8.3321608736e-3f));
  ps = vfma(ps, z, vset1(-1.6666654611e-1f));
  ps = vfma(vmul(ps, z), r, r);
  VF pc = vfma(z, vset1(2.443315711809948e-5f), vset1(-1.388731625493765e-3f));
  pc = vfma(pc, z, vset1(4.166664568298827e-2f));
  pc = vfma(vmul(pc, z), z, vfnma(z, vset1(0.5f), vset1(1.0f)));
  // quadrant = q mod 4, in floats: h = q / 2 - floor-ish parts
  VF half = vmul(q, vset1(0.5f));
  VF odd = vabs(vsub(half, vround(half)));             // 0.5 where q is odd, else 0
  VF swap_s = vselect_lt(vset1(0.25f), odd, pc, ps);
  VF swap_c = vselect_lt(vset1(0.25f), odd, ps, pc);
  VF four = vmul(q, vset1(0.25f));
  VF m = vmul(vsub(four, vround(four)), vset1(4.0f));  // q mod 4 as -2, -1, 0, 1, 2
  VF neg_s = vselect_lt(vabs(vsub(m, vset1(-1.0f))), vset1(0.5f), vset1(-1.0f), vset1(1.0f));
  neg_s = vselect_lt(vset1(1.5f), vabs(m), vset1(-1.0f), neg_s);
  VF neg_c = vselect_lt(vabs(vsub(m, vset1(1.0f))), vset1(0.5f), vset1(-1.0f), vset1(1.0f));
  neg_c = vselect_lt(vset1(1.5f), vabs(m), vset1(-1.0f), neg_c);
  s = vmul(swap_s, neg_s);
  c = vmul(swap_c, neg_c);
}

inline void rope_angles(const float* frequency, int n, float position, float magnitude, float* cos, float* sin) {
  for (int i = 0; i < n; i += kLanes) {
    int left = n - i < kLanes ? n - i : kLanes;
    VF s, c;
    vsincos(vmul(vloadn(frequency + i, left), vset1(position)), s, c);
    vstoren(cos + i, vmul(c, vset1(magnitude)), left);
    vstoren(sin + i, vmul(s, vset1(magnitude)), left);
  }
}

inline void rope_rotate(const float* x, int head_dim, int dim, bool interleaved, const float* cos, const float* sin,
                        float scale, float* out) {
  int half = dim / 2;
  if (interleaved) {
    for (int i = 0; i < half; i++) {
      float a = x[2 * i], b = x[2 * i + 1];
      out[2 * i] = (a * cos[i] - b * sin[i]) * scale;
      out[2 * i + 1] = (b * cos[i] + a * sin[i]) * scale;
    }
  } else {
    int i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      VF a = vload(x + i), b = vload(x + half + i), c = vload(cos + i), s = vload(sin + i);
      vstore(out + i, vmul(vsub(vmul(a, c), vmul(b, s)), vset1(scale)));
      vstore(out + half + i, vmul(vadd(vmul(b, c), vmul(a, s)), vset1(scale)));
    }
    if (i < half) {
      int n = half - i;
      VF a = vloadn(x + i, n), b = vloadn(x + half + i, n), c = vloadn(cos + i, n), s = vloadn(sin + i, n);
      vstoren(out + i, vmul(vsub(vmul(a, c), vmul(b, s)), vset1(scale)), n);
      vstoren(out + half + i, vmul(vadd(vmul(b, c), vmul(a, s)), vset1(scale)), n);
    }
  }
  for (int i = dim; i < head_dim; i += kLanes) {
    int n = head_dim - i < kLanes ? head_dim - i : kLanes;
    vstoren(out + i, vmul(vloadn(x + i, n), vset1(scale)), n);
  }
}
