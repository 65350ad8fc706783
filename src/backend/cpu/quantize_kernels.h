// Quantisation and narrowing of rows; included inside an ISA's namespace.

// 64 floats to int8: returns the scale, and the sums of the two halves; what is left over goes to `rest` unless null.
BRISK_INLINE float quantize_64(const float* x, int8_t* q, int32_t (&sum)[2], float* rest) {
  constexpr int N = 64 / kLanes;
  VF v[N];
  VF top = vzero();
  for (int i = 0; i < N; i++) {
    v[i] = vload(x + i * kLanes);
    top = vmax(top, vabs(v[i]));
  }
  float largest = vreduce_max(top);
  float scale = largest / 127.0f, inverse = largest > 0 ? 127.0f / largest : 0.0f;
  VI s[2] = {viset1(0), viset1(0)};
  for (int i = 0; i < N; i++) {
    VI n = vf_to_i(vmul(v[i], vset1(inverse)));
    s[i * 2 / N] = viadd(s[i * 2 / N], n);
    vstore_i8(q + i * kLanes, n);
    if (rest) vstore(rest + i * kLanes, vfnma(vi_to_f(n), vset1(scale), v[i]));
  }
  sum[0] = vireduce_add(s[0]);
  sum[1] = vireduce_add(s[1]);
  return scale;
}

inline void quantize_row(const QuantizeRowCall& c) {
  int64_t out = 0;
  auto put = [&](int32_t sum, float scale) {
    int32_t* si = static_cast<int32_t*>(c.sum) + out;
    float* sf = static_cast<float*>(c.sum) + out;
    out++;
    switch (static_cast<ActSums>(c.sum_form)) {
      case ActSums::kTimes128: *si = -128 * sum; break;
      case ActSums::kTimes8: *si = -8 * sum; break;
      case ActSums::kPlain: *sf = static_cast<float>(sum); break;
      case ActSums::kScaled: *sf = scale * static_cast<float>(sum); break;
    }
  };
  for (int64_t g = 0; g < c.padded_k / 64; g++) {
    const float* x = c.x + g * 64;
    alignas(64) float tail[64];
    if ((g + 1) * 64 > c.k) {
      for (int i = 0; i < 64; i++) tail[i] = g * 64 + i < c.k ? x[i] : 0.0f;
      x = tail;
    }
    int32_t sum[2];
    float scale = quantize_64(x, c.q + g * 64, sum, c.rest ? c.rest + g * 64 : nullptr);
    c.scale[g] = scale;
    if (c.sum_unit == 64) {
      put(sum[0] + sum[1], scale);
    } else {
      put(sum[0], scale);
      put(sum[1], scale);
    }
  }
}

// Stores n floats in 16 bits each.
struct StoreBf16 { BRISK_INLINE static void store(uint16_t* p, VF v) { vstore_bf16(p, v); } };
struct StoreF16 { BRISK_INLINE static void store(uint16_t* p, VF v) { vstore_f16(p, v); } };
template <class Store>
void narrow_row(const float* x, int64_t n, uint16_t* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store::store(out + i, vload(x + i));
  if (i == n) return;
  alignas(64) uint16_t bits[kLanes];
  Store::store(bits, vloadn(x + i, static_cast<int>(n - i)));
  for (int64_t j = i; j < n; j++) out[j] = bits[j - i];
}
inline void to_bf16(const float* x, int64_t n, uint16_t* out) { narrow_row<StoreBf16>(x, n, out); }
inline void to_f16(const float* x, int64_t n, uint16_t* out) { narrow_row<StoreF16>(x, n, out); }
inline void round_row_bf16(const float* x, int64_t k, uint16_t* out) {
  to_bf16(x, k, out);
  if (k % 2) out[k] = 0;
}
