// Elementary functions on vectors; included inside an ISA's namespace. The same polynomial everywhere: attention,
// softmax and activations agree to the bit inside one level.

// e^x: x = n ln 2 + r, |r| <= ln 2 / 2, degree-6 minimax of e^r, then 2^n. Error below 1.5 ulp; results under the
// smallest normal number are 0. For x <= 88 (or NaN, which stays).
BRISK_INLINE VF vexp_small(VF x) {
  VF n = vmax(vset1(-126.0f), vround(vmul(x, vset1(1.44269504088896341f))));
  VF r = vfnma(n, vset1(0.693145751953125f), x);
  r = vfnma(n, vset1(1.42860682030941723e-6f), r);
  VF p = vset1(1.3981999507e-3f);
  p = vfma(p, r, vset1(8.3334519073e-3f));
  p = vfma(p, r, vset1(4.1665795894e-2f));
  p = vfma(p, r, vset1(1.6666665459e-1f));
  p = vfma(p, r, vset1(5.0000001201e-1f));
  p = vscale2(vfma(vmul(p, r), r, vadd(r, vset1(1.0f))), n);
  return vselect_lt(x, vset1(-87.33654f), vzero(), p);
}
BRISK_INLINE VF vexp(VF x) {
  VF p = vexp_small(vmin(vset1(88.72284f), x));
  return vselect_lt(vset1(88.72284f), x, vset1(__builtin_inff()), p);
}

BRISK_INLINE VF vsigmoid(VF x) { return vdiv(vset1(1.0f), vadd(vset1(1.0f), vexp(vneg(x)))); }

// Near zero the odd series, elsewhere (1 - e) / (1 + e) with e = exp(-2|x|).
BRISK_INLINE VF vtanh(VF x) {
  VF a = vabs(x), e = vexp(vmul(a, vset1(-2.0f)));
  VF big = vdiv(vsub(vset1(1.0f), e), vadd(vset1(1.0f), e));
  VF q = vmul(a, a);
  VF p = vfma(q, vset1(2.1869488e-2f), vset1(-5.3968254e-2f));
  p = vfma(p, q, vset1(1.3333333e-1f));
  p = vfma(p, q, vset1(-3.3333333e-1f));
  VF small = vfma(vmul(p, q), a, a);
  VF r = vselect_lt(a, vset1(0.25f), small, big);
  return vselect_lt(x, vzero(), vneg(r), r);
}

// Near zero the Maclaurin series, elsewhere 1 - t e^(-x^2 + P(t)), t = 1 / (1 + |x| / 2) with the Chebyshev fit of
// erfc (Press et al., Numerical Recipes, section on the error function; fractional error of erfc 1.2e-7).
BRISK_INLINE VF verf(VF x) {
  VF a = vabs(x), q = vmul(a, a);
  VF t = vdiv(vset1(1.0f), vfma(a, vset1(0.5f), vset1(1.0f)));
  const float c[] = {0.17087277f, -0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f,
                     -0.18628806f, 0.09678418f, 0.37409196f, 1.00002368f, -1.26551223f};
  VF p = vset1(c[0]);
  for (int i = 1; i < 10; i++) p = vfma(p, t, vset1(c[i]));
  VF big = vfnma(t, vexp(vsub(p, q)), vset1(1.0f));
  VF s = vset1(-8.5471698e-4f);
  s = vfma(s, q, vset1(5.2239776e-3f));
  s = vfma(s, q, vset1(-2.6866171e-2f));
  s = vfma(s, q, vset1(1.1283792e-1f));
  s = vfma(s, q, vset1(-3.7612639e-1f));
  s = vfma(s, q, vset1(1.1283792f));
  VF r = vselect_lt(a, vset1(0.5f), vmul(s, a), big);
  return vselect_lt(x, vzero(), vneg(r), r);
}

BRISK_INLINE VF vsilu(VF x) { return vdiv(x, vadd(vset1(1.0f), vexp(vneg(x)))); }
BRISK_INLINE VF vgelu_tanh(VF x) {
  VF u = vmul(vfma(vmul(vmul(x, x), vset1(0.044715f)), x, x), vset1(0.7978845608f));
  VF h = vmul(x, vset1(0.5f));
  return vfma(h, vtanh(u), h);
}
BRISK_INLINE VF vgelu_erf(VF x) {
  VF h = vmul(x, vset1(0.5f));
  return vfma(h, verf(vmul(x, vset1(0.70710678f))), h);
}

// One function object per Unary, so that the choice is made outside the loops.
struct FIdentity { BRISK_INLINE VF operator()(VF x) const { return x; } };
struct FRelu { BRISK_INLINE VF operator()(VF x) const { return vmax(vzero(), x); } };
struct FSigmoid { BRISK_INLINE VF operator()(VF x) const { return vsigmoid(x); } };
struct FSilu { BRISK_INLINE VF operator()(VF x) const { return vsilu(x); } };
struct FTanh { BRISK_INLINE VF operator()(VF x) const { return vtanh(x); } };
struct FGeluTanh { BRISK_INLINE VF operator()(VF x) const { return vgelu_tanh(x); } };
struct FGeluErf { BRISK_INLINE VF operator()(VF x) const { return vgelu_erf(x); } };
struct FExp { BRISK_INLINE VF operator()(VF x) const { return vexp(x); } };
struct FErf { BRISK_INLINE VF operator()(VF x) const { return verf(x); } };
struct FHardSigmoid {
  float alpha, beta;
  BRISK_INLINE VF operator()(VF x) const { return vmax(vzero(), vmin(vset1(1.0f), vfma(x, vset1(alpha), vset1(beta)))); }
};
struct FHardSwish { BRISK_INLINE VF operator()(VF x) const { return vmul(x, FHardSigmoid{1.0f / 6, 0.5f}(x)); } };
struct FClip {  // a NaN stays
  float low, high;
  BRISK_INLINE VF operator()(VF x) const { return vmin(vset1(high), vmax(vset1(low), x)); }
};
struct FLeakyRelu {
  float alpha;
  BRISK_INLINE VF operator()(VF x) const { return vselect_lt(x, vzero(), vmul(x, vset1(alpha)), x); }
};

template <class Body>
BRISK_INLINE void with_unary(const UnaryCall& c, const Body& body) {
  switch (c.f) {
    case Unary::kIdentity: body(FIdentity{}); break;
    case Unary::kRelu: body(FRelu{}); break;
    case Unary::kSigmoid: body(FSigmoid{}); break;
    case Unary::kSilu: body(FSilu{}); break;
    case Unary::kTanh: body(FTanh{}); break;
    case Unary::kGeluTanh: body(FGeluTanh{}); break;
    case Unary::kGeluErf: body(FGeluErf{}); break;
    case Unary::kExp: body(FExp{}); break;
    case Unary::kErf: body(FErf{}); break;
    case Unary::kHardSwish: body(FHardSwish{}); break;
    case Unary::kClip: body(FClip{c.alpha, c.beta}); break;
    case Unary::kLeakyRelu: body(FLeakyRelu{c.alpha}); break;
    case Unary::kHardSigmoid: body(FHardSigmoid{c.alpha, c.beta}); break;
  }
}
