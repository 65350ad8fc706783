// More elementary functions on vectors (see math_kernels.h); included inside an ISA's namespace.

// ln x: x = 2^e m, m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m - 1) / (m + 1)) by its series, error below 2 ulp.
// Subnormal numbers are scaled first.
BRISK_INLINE VF vlog(VF x) {
  VF tiny = vset1(1.17549435e-38f);
  VF e0 = vselect_lt(x, tiny, vset1(-23.0f), vzero());
  VF y = vselect_lt(x, tiny, vmul(x, vset1(8388608.0f)), x);
  VI bits = vf_bits(y);
  // The exponent counted from sqrt(1/2), so that m lies round 1.
  VI shifted = viadd(bits, viset1(0x3f800000 - 0x3f3504f3));
  VF e = vadd(vi_to_f(viadd(vishr23(shifted), viset1(-127))), e0);
  VF m = vi_as_f(viadd(viand(shifted, viset1(0x007fffff)), viset1(0x3f3504f3)));
  VF s = vdiv(vsub(m, vset1(1.0f)), vadd(m, vset1(1.0f))), z = vmul(s, s);
  VF p = vfma(z, vset1(2.0f / 9), vset1(2.0f / 7));
  p = vfma(p, z, vset1(2.0f / 5));
  p = vfma(p, z, vset1(2.0f / 3));
  VF two_s = vadd(s, s);
  VF r = vfma(vmul(p, z), s, two_s);
  r = vfma(e, vset1(1.42860682030941723e-6f), r);
  r = vfma(e, vset1(0.693145751953125f), r);
  r = vselect_lt(vzero(), x, r, vset1(-__builtin_inff()));        // zero, and what is below it next
  r = vselect_lt(x, vzero(), vset1(__builtin_nanf("")), r);
  r = vselect_lt(x, vset1(__builtin_inff()), r, x);               // infinity and NaN stay
  return r;
}

// e^x - 1: near zero the series, so that small results keep their digits.
BRISK_INLINE VF vexpm1(VF x) {
  VF p = vset1(1.0f / 5040);
  p = vfma(p, x, vset1(1.0f / 720));
  p = vfma(p, x, vset1(1.0f / 120));
  p = vfma(p, x, vset1(1.0f / 24));
  p = vfma(p, x, vset1(1.0f / 6));
  p = vfma(p, x, vset1(0.5f));
  VF small = vfma(vmul(p, x), x, x);
  return vselect_lt(vabs(x), vset1(0.4f), small, vsub(vexp(x), vset1(1.0f)));
}

BRISK_INLINE VF vsoftplus(VF x) {
  VF t = vexp(vneg(vabs(x)));
  // ln(1 + t): for small t its series
  VF small = vfma(vmul(t, t), vfma(t, vset1(1.0f / 3), vset1(-0.5f)), t);
  VF l = vselect_lt(t, vset1(2e-3f), small, vlog(vadd(vset1(1.0f), t)));
  return vadd(vmax(vzero(), x), l);
}
// x tanh(ln(1 + e^x)) = x (e^2 + 2e) / (e^2 + 2e + 2), e = e^x; 1 from where that is all that is left of it.
BRISK_INLINE VF vmish(VF x) {
  VF e = vexp(vmin(vset1(20.0f), x)), u = vmul(e, vadd(e, vset1(2.0f)));
  return vmul(x, vdiv(u, vadd(u, vset1(2.0f))));
}

// sin(x + quadrant pi/2) for |x| < 8192: x = n pi/2 + r (pi/2 in three parts), |r| <= pi/4, then the series of sin or cos.
BRISK_INLINE VF vsin_near(VF x, int quadrant) {
  VF n = vround(vmul(x, vset1(0.636619772367581343f)));
  VF r = vfnma(n, vset1(1.5703125f), x);
  r = vfnma(n, vset1(4.837512969970703125e-4f), r);
  r = vfnma(n, vset1(7.549789948768648e-8f), r);
  VF z = vmul(r, r);
  VF s = vfma(z, vset1(2.7557319e-6f), vset1(-1.9841270e-4f));
  s = vfma(s, z, vset1(8.3333333e-3f));
  s = vfma(s, z, vset1(-1.6666667e-1f));
  s = vfma(vmul(s, z), r, r);
  VF c = vfma(z, vset1(-2.7557319e-7f), vset1(2.4801587e-5f));
  c = vfma(c, z, vset1(-1.3888889e-3f));
  c = vfma(c, z, vset1(4.1666667e-2f));
  c = vfma(c, z, vset1(-0.5f));
  c = vfma(c, z, vset1(1.0f));
  VI q = viadd(vf_to_i(n), viset1(quadrant));
  VF odd = vi_to_f(viand(q, viset1(1)));
  VF v = vselect_lt(vzero(), odd, c, s);
  VF minus = vi_to_f(viand(q, viset1(2)));
  return vselect_lt(vzero(), minus, vneg(v), v);
}
