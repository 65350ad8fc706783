// Products of recurrent states with packed weights; included inside an ISA's namespace. With kByteWeights added to the number
// of gates the weights are signed bytes.
constexpr int kByteWeights = 8;

// acc[r][G][16] += sum over k of h[r][k] * w[k][G][16] (a block of 16 units of G gates; see recurrent.h). Even and odd k are
// two chains, added in the end: one chain alone would wait for every sum.
BRISK_INLINE VF load_weight(const float* p) { return vload(p); }
BRISK_INLINE VF load_weight(const int8_t* p) { return vload_i8(p); }
template <int G, int R, class W>
BRISK_INLINE void gate_rows(const float* h, int64_t ldh, int64_t k, const W* w, float* acc) {
  constexpr int V = 16 / kLanes, P = R == 1 ? 2 : 1;
  VF s[P][R][G * V];
  BRISK_UNROLL
  for (int p = 0; p < P; p++)
    BRISK_UNROLL
    for (int r = 0; r < R; r++)
      BRISK_UNROLL
      for (int j = 0; j < G * V; j++) s[p][r][j] = p ? vzero() : vload(acc + r * G * 16 + j * kLanes);
  auto step = [&](int p, int64_t i, const W* wi) __attribute__((always_inline)) {
    VF b[G * V];
    BRISK_UNROLL
    for (int j = 0; j < G * V; j++) b[j] = load_weight(wi + j * kLanes);
    BRISK_UNROLL
    for (int r = 0; r < R; r++) {
      VF x = vset1(h[r * ldh + i]);
      BRISK_UNROLL
      for (int j = 0; j < G * V; j++) s[p][r][j] = vfma(x, b[j], s[p][r][j]);
    }
  };
  int64_t i = 0;
  for (; i + 2 <= k; i += 2, w += 2 * G * 16) {
    step(0, i, w);
    step(P - 1, i + 1, w + G * 16);
  }
  if (i < k) step(0, i, w);
  BRISK_UNROLL
  for (int r = 0; r < R; r++)
    BRISK_UNROLL
    for (int j = 0; j < G * V; j++) vstore(acc + r * G * 16 + j * kLanes, P == 2 ? vadd(s[0][r][j], s[P - 1][r][j]) : s[0][r][j]);
}

template <int G, class W>
BRISK_INLINE void gate_sums_of(const float* h, int64_t ldh, int rows, int64_t k, const W* w, float* acc) {
  int r = 0;
  if constexpr (kLanes == 16)
    for (; r + 4 <= rows; r += 4) gate_rows<G, 4>(h + r * ldh, ldh, k, w, acc + r * G * 16);
  for (; r < rows; r++) gate_rows<G, 1>(h + r * ldh, ldh, k, w, acc + r * G * 16);
}
template <class W>
BRISK_INLINE void gate_sums_by(int gates, const float* h, int64_t ldh, int rows, int64_t k, const W* w, float* acc) {
  switch (gates) {
    case 1: return gate_sums_of<1>(h, ldh, rows, k, w, acc);
    case 2: return gate_sums_of<2>(h, ldh, rows, k, w, acc);
    case 3: return gate_sums_of<3>(h, ldh, rows, k, w, acc);
    default: return gate_sums_of<4>(h, ldh, rows, k, w, acc);
  }
}
inline void gate_sums(int gates, const float* h, int64_t ldh, int rows, int64_t k, const float* w, float* acc) {
  if (gates & kByteWeights) gate_sums_by(gates & ~kByteWeights, h, ldh, rows, k, reinterpret_cast<const int8_t*>(w), acc);
  else gate_sums_by(gates, h, ldh, rows, k, w, acc);
}
