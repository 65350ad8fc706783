// Rows of reductions, norms, images and quantisation; included inside an ISA's namespace.

// vmax and vmin give their second operand where one is NaN: what comes as NaN is taken, an accumulator that is NaN stays.
template <Fold f>
BRISK_INLINE VF fold_step(VF acc, VF x, VF shift) {
  if constexpr (f == Fold::kMax) return vselect_nan(acc, acc, vmax(acc, x));
  if constexpr (f == Fold::kMin) return vselect_nan(acc, acc, vmin(acc, x));
  if constexpr (f == Fold::kProd) return vmul(acc, x);
  if constexpr (f == Fold::kAbsSum) return vadd(acc, vabs(x));
  if constexpr (f == Fold::kSquares) return vfma(x, x, acc);
  if constexpr (f == Fold::kSumExp) return vadd(acc, vexp(vsub(x, shift)));
  return vadd(acc, x);
}
template <Fold f>
BRISK_INLINE VF fold_join(VF a, VF b) {  // two accumulators
  if constexpr (f == Fold::kSquares || f == Fold::kAbsSum || f == Fold::kSumExp) return vadd(a, b);
  else return fold_step<f>(a, b, vzero());
}

// Four chains of lanes, joined in a fixed order.
template <Fold f>
BRISK_INLINE float fold_row_of(const float* x, int64_t n, float shift) {
  const VF d = vset1(shift), none = vset1(fold_start(f));
  VF s[4] = {none, none, none, none};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int c = 0; c < 4; c++) s[c] = fold_step<f>(s[c], vload(x + i + c * kLanes), d);
  for (; i + kLanes <= n; i += kLanes) s[0] = fold_step<f>(s[0], vload(x + i), d);
  if (i < n) {
    int left = static_cast<int>(n - i);
    s[1] = vfirst(fold_step<f>(s[1], vloadn(x + i, left), d), left, s[1]);
  }
  VF all = fold_join<f>(fold_join<f>(s[0], s[1]), fold_join<f>(s[2], s[3]));
  float lanes[kLanes];
  vstore(lanes, all);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int j = 0; j < width; j++) {
      float a = lanes[j], b = lanes[j + width];
      lanes[j] = f == Fold::kMax ? (((a > b) | (a != a)) ? a : b) : f == Fold::kMin ? (((a < b) | (a != a)) ? a : b) : f == Fold::kProd ? a * b : a + b;
    }
  return lanes[0];
}
template <Fold f>
BRISK_INLINE void fold_columns_of(const float* x, int64_t n, const float* shift, float* acc) {
  for_lanes(n, [&](int64_t i, int left) __attribute__((always_inline)) {
    VF d = f == Fold::kSumExp ? vloadn(shift + i, left) : vzero();
    vstoren(acc + i, fold_step<f>(vloadn(acc + i, left), vloadn(x + i, left), d), left);
  });
}

inline float fold_row(Fold f, const float* x, int64_t n, float shift) {
  switch (f) {
    case Fold::kSum: return fold_row_of<Fold::kSum>(x, n, shift);
    case Fold::kMax: return fold_row_of<Fold::kMax>(x, n, shift);
    case Fold::kMin: return fold_row_of<Fold::kMin>(x, n, shift);
    case Fold::kProd: return fold_row_of<Fold::kProd>(x, n, shift);
    case Fold::kAbsSum: return fold_row_of<Fold::kAbsSum>(x, n, shift);
    case Fold::kSquares: return fold_row_of<Fold::kSquares>(x, n, shift);
    case Fold::kSumExp: return fold_row_of<Fold::kSumExp>(x, n, shift);
  }
  return 0;
}
inline void fold_columns(Fold f, const float* x, int64_t n, const float* shift, float* acc) {
  switch (f) {
    case Fold::kSum: return fold_columns_of<Fold::kSum>(x, n, shift, acc);
    case Fold::kMax: return fold_columns_of<Fold::kMax>(x, n, shift, acc);
    case Fold::kMin: return fold_columns_of<Fold::kMin>(x, n, shift, acc);
    case Fold::kProd: return fold_columns_of<Fold::kProd>(x, n, shift, acc);
    case Fold::kAbsSum: return fold_columns_of<Fold::kAbsSum>(x, n, shift, acc);
    case Fold::kSquares: return fold_columns_of<Fold::kSquares>(x, n, shift, acc);
    case Fold::kSumExp: return fold_columns_of<Fold::kSumExp>(x, n, shift, acc);
  }
}

inline void log_softmax(const float* x, int64_t n, float* out) {
  float top = fold_row_of<Fold::kMax>(x, n, 0);
  float lanes[kLanes];
  vstore(lanes, vlog(vset1(fold_row_of<Fold::kSumExp>(x, n, top))));
  VF shift = vset1(top), rest = vset1(lanes[0]);
  for_lanes(n, [&](int64_t i, int left) __attribute__((always_inline)) {
    vstoren(out + i, vsub(vsub(vloadn(x + i, left), shift), rest), left);
  });
}

// Columns of [n][ld] from `x`: softmax down each of `width` columns (at most kTile), written with the same strides.
inline void softmax_columns(const float* x, int64_t n, int64_t ld, int64_t width, bool log_form, float* out) {
  float top[kTile], sum[kTile];
  for (int64_t i = 0; i < width; i++) top[i] = -__builtin_inff(), sum[i] = 0;
  for (int64_t r = 0; r < n; r++) fold_columns_of<Fold::kMax>(x + r * ld, width, nullptr, top);
  if (log_form) {
    for (int64_t r = 0; r < n; r++) fold_columns_of<Fold::kSumExp>(x + r * ld, width, top, sum);
    for_lanes(width, [&](int64_t i, int left) __attribute__((always_inline)) {
      vstoren(sum + i, vadd(vlog(vloadn(sum + i, left)), vloadn(top + i, left)), left);
    });
  }
  for (int64_t r = 0; r < n; r++)
    for_lanes(width, [&](int64_t i, int left) __attribute__((always_inline)) {
      VF v = vloadn(x + r * ld + i, left);
      if (log_form) {
        vstoren(out + r * ld + i, vsub(v, vloadn(sum + i, left)), left);
      } else {
        VF e = vexp(vsub(v, vloadn(top + i, left)));
        vstoren(out + r * ld + i, e, left);
        vstoren(sum + i, vadd(vloadn(sum + i, left), e), left);
      }
    });
  if (log_form) return;
  for (int64_t i = 0; i < width; i++) sum[i] = 1.0f / sum[i];
  for (int64_t r = 0; r < n; r++)
    for_lanes(width, [&](int64_t i, int left) __attribute__((always_inline)) {
      vstoren(out + r * ld + i, vmul(vloadn(out + r * ld + i, left), vloadn(sum + i, left)), left);
    });
}

inline void scale_shift(const float* x, int64_t n, float scale, float shift, float* out) {
  VF s = vset1(scale), d = vset1(shift);
  for_lanes(n, [&](int64_t i, int left) __attribute__((always_inline)) { vstoren(out + i, vfma(vloadn(x + i, left), s, d), left); });
}

// Sum of (x - mean)^2.
inline float squares_about(const float* x, int64_t n, float mean) {
  VF shift = vset1(mean);
  return sum_lanes(n, [&](int64_t i, int left) __attribute__((always_inline)) {
    VF v = vfirst(vsub(vloadn(x + i, left), shift), left, vzero());
    return vmul(v, v);
  });
}

inline void weighted_rows(const float* const* x, const float* weight, int taps, int64_t n, float* y) {
  for_lanes(n, [&](int64_t i, int left) __attribute__((always_inline)) {
    VF sum = vzero();
    for (int k = 0; k < taps; k++) sum = vfma(vset1(weight[k]), vloadn(x[k] + i, left), sum);
    vstoren(y + i, sum, left);
  });
}

// Blocks of 8 x 8 words: both sides touch whole half lines.
template <class T>
inline void transpose_block(const T* src, int64_t ld_src, T* dst, int64_t ld_dst, int64_t rows, int64_t cols) {
  for (int64_t c = 0; c < cols; c++)
    for (int64_t r = 0; r < rows; r++) dst[c * ld_dst + r] = src[r * ld_src + c];
}
BRISK_INLINE void transpose_8x8(const uint32_t* src, int64_t ld_src, uint32_t* dst, int64_t ld_dst) {
  __m256 r[8], t[8];
  BRISK_UNROLL
  for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(src + i * ld_src));
  BRISK_UNROLL
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  BRISK_UNROLL
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  BRISK_UNROLL
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(reinterpret_cast<float*>(dst + i * ld_dst), _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(reinterpret_cast<float*>(dst + (i + 4) * ld_dst), _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
inline void transpose32(const uint32_t* src, int64_t ld_src, uint32_t* dst, int64_t ld_dst, int64_t rows, int64_t cols) {
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8) {
    int64_t c = 0;
    for (; c + 8 <= cols; c += 8) transpose_8x8(src + r * ld_src + c, ld_src, dst + c * ld_dst + r, ld_dst);
    if (c < cols) transpose_block(src + r * ld_src + c, ld_src, dst + c * ld_dst + r, ld_dst, 8, cols - c);
  }
  if (r < rows) transpose_block(src + r * ld_src, ld_src, dst + r, ld_dst, rows - r, cols);
}

inline void rotate_halves(const float* x, int64_t half, const float* cos, const float* sin, float* out) {
  for_lanes(half, [&](int64_t i, int left) __attribute__((always_inline)) {
    VF u = vloadn(x + i, left), w = vloadn(x + half + i, left), c = vloadn(cos + i, left), s = vloadn(sin + i, left);
    vstoren(out + i, vsub(vmul(c, u), vmul(s, w)), left);
    vstoren(out + half + i, vadd(vmul(s, u), vmul(c, w)), left);
  });
}

// clamp(round(x / scale) + zero), to one byte each
inline void quantize_bytes(const float* x, int64_t n, float scale, float zero, float low, float high, uint8_t* out) {
  BRISK_LANES_LOOP
  for (int64_t i = 0; i < n; i++) {
    float v = __builtin_nearbyintf(x[i] / scale) + zero;
    v = v < low ? low : v;
    v = v > high ? high : v;
    out[i] = static_cast<uint8_t>(static_cast<int32_t>(v == v ? v : low));
  }
}
template <class T>
inline void dequantize_as(const void* x, int64_t n, int32_t zero, float scale, float* out) {
  const T* q = static_cast<const T*>(x);
  BRISK_LANES_LOOP
  for (int64_t i = 0; i < n; i++) out[i] = static_cast<float>(static_cast<int32_t>(q[i]) - zero) * scale;
}
inline void dequantize(const void* x, int64_t n, DType t, int32_t zero, float scale, float* out) {
  if (t == DType::kI8) dequantize_as<int8_t>(x, n, zero, scale, out);
  else if (t == DType::kU8) dequantize_as<uint8_t>(x, n, zero, scale, out);
  else dequantize_as<int32_t>(x, n, zero, scale, out);
}
