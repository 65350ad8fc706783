// Norms, softmax and other functions of one row; included inside an ISA's namespace. Sums run over four vectors of
// lanes in turn and are folded in a fixed order, so a row's bits depend on the row alone.

template <class F>
BRISK_INLINE float sum_lanes(int64_t n, const F& term) {  // term(i, lanes): vector at i with `lanes` valid, others zero
  VF s[4] = {vzero(), vzero(), vzero(), vzero()};
  int64_t i = 0;
  for (int c = 0; i + kLanes <= n; i += kLanes, c = (c + 1) & 3) s[c] = vadd(s[c], term(i, kLanes));
  if (i < n) s[0] = vadd(s[0], term(i, static_cast<int>(n - i)));
  return vreduce_add(vadd(vadd(s[0], s[1]), vadd(s[2], s[3])));
}
template <class F>
BRISK_INLINE void for_lanes(int64_t n, const F& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, static_cast<int>(n - i));
}

// x / sqrt(mean(x^2) + epsilon) * w (Zhang and Sennrich, 2019)
inline void rms_norm(const float* x, const float* w, int64_t k, float epsilon, float* out) {
  float squares = sum_lanes(k, [&](int64_t i, int n) __attribute__((always_inline)) {
    VF v = vloadn(x + i, n);
    return vmul(v, v);
  });
  VF scale = vset1(1.0f / __builtin_sqrtf(squares / static_cast<float>(k) + epsilon));
  for_lanes(k, [&](int64_t i, int n) __attribute__((always_inline)) {
    vstoren(out + i, vmul(vmul(vloadn(x + i, n), scale), vloadn(w + i, n)), n);
  });
}

// (x - mean) / sqrt(variance + epsilon) * w + b (Ba et al., 2016), the variance in a second pass
inline void layer_norm(const float* x, const float* w, const float* b, int64_t k, float epsilon, float* out) {
  float mean = sum_lanes(k, [&](int64_t i, int n) __attribute__((always_inline)) { return vloadn(x + i, n); }) /
               static_cast<float>(k);
  VF shift = vset1(mean);
  float squares = sum_lanes(k, [&](int64_t i, int n) __attribute__((always_inline)) {
    VF v = vfirst(vsub(vloadn(x + i, n), shift), n, vzero());
    return vmul(v, v);
  });
  VF scale = vset1(1.0f / __builtin_sqrtf(squares / static_cast<float>(k) + epsilon));
  for_lanes(k, [&](int64_t i, int n) __attribute__((always_inline)) {
    VF v = vmul(vsub(vloadn(x + i, n), shift), scale);
    if (w) v = vmul(v, vloadn(w + i, n));
    if (b) v = vadd(v, vloadn(b + i, n));
    vstoren(out + i, v, n);
  });
}

inline void softmax(const float* x, int64_t n, float* out) {
  const VF none = vset1(-__builtin_inff());
  VF top = none;
  for_lanes(n, [&](int64_t i, int left) __attribute__((always_inline)) {
    top = vmax(top, vfirst(vloadn(x + i, left), left, none));
  });
  VF shift = vset1(vreduce_max(top));
  float sum = sum_lanes(n, [&](int64_t i, int left) __attribute__((always_inline)) {
    VF e = vfirst(vexp(vsub(vloadn(x + i, left), shift)), left, vzero());
    vstoren(out + i, e, left);
    return e;
  });
  VF inverse = vset1(1.0f / sum);
  for_lanes(n, [&](int64_t i, int left) __attribute__((always_inline)) {
    vstoren(out + i, vmul(vloadn(out + i, left), inverse), left);
  });
}

// The largest value by lanes, then its first place.
inline int64_t argmax(const float* x, int64_t n) {
  const VF none = vset1(-__builtin_inff());
  VF top = none;
  for_lanes(n, [&](int64_t i, int left) __attribute__((always_inline)) {
    VF v = vfirst(vloadn(x + i, left), left, none);
    top = vmax(v, top);  // a NaN in the first operand gives the second
  });
  float largest = vreduce_max(top);
  if (largest == -__builtin_inff()) return 0;
  for (int64_t i = 0; i < n; i++)
    if (x[i] == largest) return i;
  return 0;
}

inline void unary(const UnaryCall& f, const float* x, int64_t n, float* out) {
  with_unary(f, [&](auto act) __attribute__((always_inline)) {
    for_lanes(n, [&](int64_t i, int left) __attribute__((always_inline)) { vstoren(out + i, act(vloadn(x + i, left)), left); });
  });
}
