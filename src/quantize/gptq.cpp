#include "quantize/gptq.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "quantize/parallel.h"

// Products and sums are not contracted, so every instruction set gives the same bits. Sanitizers instrument the resolvers
// of clones, which run before their own start.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define BRISK_NO_CLONES
#endif
#elif defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define BRISK_NO_CLONES
#endif
#if defined(__x86_64__) && !defined(BRISK_NO_CLONES)
#define BRISK_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define BRISK_CLONES
#endif

namespace brisk {
namespace {

// Rows are worked on kLanes at a time, a row a vector lane: sums over columns run in one order whatever the vectors' width.
constexpr int64_t kLanes = 32;
constexpr int64_t kPanel = 64;  // columns of the factorisation between two updates
typedef float Sixteen __attribute__((vector_size(64), aligned(4), may_alias));  // NOLINT: the attributes of an alias are dropped

// out[r][lane] += sum over j < n of c[r * ld + j] * e[j][lane], for `rows` (a multiple of 4) coefficient rows.
BRISK_CLONES void accumulate(const float* c, int64_t ld, int64_t rows, const float* e, int64_t n, float* out) {
  for (int64_t r = 0; r < rows; r += 4) {
    const float *c0 = c + r * ld, *c1 = c0 + ld, *c2 = c1 + ld, *c3 = c2 + ld;
    Sixteen* o = reinterpret_cast<Sixteen*>(out + r * kLanes);
    Sixteen a0 = o[0], a1 = o[1], b0 = o[2], b1 = o[3], d0 = o[4], d1 = o[5], f0 = o[6], f1 = o[7];
    const Sixteen* x = reinterpret_cast<const Sixteen*>(e);
    for (int64_t j = 0; j < n; ++j, x += 2) {
      a0 += c0[j] * x[0], a1 += c0[j] * x[1];
      b0 += c1[j] * x[0], b1 += c1[j] * x[1];
      d0 += c2[j] * x[0], d1 += c2[j] * x[1];
      f0 += c3[j] * x[0], f1 += c3[j] * x[1];
    }
    o[0] = a0, o[1] = a1, o[2] = b0, o[3] = b1, o[4] = d0, o[5] = d1, o[6] = f0, o[7] = f1;
  }
}

BRISK_CLONES double dot(const float* a, const float* b, int64_t n) {
  double sum[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int64_t l = 0; l < 16; ++l) sum[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
  for (; i < n; ++i) sum[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  for (int64_t w = 8; w > 0; w /= 2)
    for (int64_t l = 0; l < w; ++l) sum[l] += sum[l + w];
  return sum[0];
}

// In-place lower Cholesky factor of the row-major [n, n] matrix (its lower triangle is read and written); false where a
// pivot is not positive. Panels of columns: all rows are brought up to date with the panels before, then the panel itself.
bool cholesky(std::vector<float>& a, int64_t n, int threads) {
  auto row = [&](int64_t i) { return a.data() + i * n; };
  for (int64_t p = 0; p < n; p += kPanel) {
    int64_t end = std::min(p + kPanel, n);
    for (int64_t i = p; i < end; ++i) {
      for (int64_t j = p; j < i; ++j)
        row(i)[j] = static_cast<float>((static_cast<double>(row(i)[j]) - dot(row(i), row(j), j)) / static_cast<double>(row(j)[j]));
      double pivot = static_cast<double>(row(i)[i]) - dot(row(i), row(i), i);
      if (!(pivot > 0)) return false;
      row(i)[i] = static_cast<float>(std::sqrt(pivot));
    }
    int64_t below = n - end, chunk = 16;
    parallel_for((below + chunk - 1) / chunk, threads, [&](int64_t c) {
      for (int64_t i = end + c * chunk; i < std::min(end + (c + 1) * chunk, n); ++i)
        for (int64_t j = p; j < end; ++j)
          row(i)[j] = static_cast<float>((static_cast<double>(row(i)[j]) - dot(row(i), row(j), j)) / static_cast<double>(row(j)[j]));
    });
  }
  return true;
}

// To the nearest integer, halves to even, for |x| < 2^22.
inline float nearest(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: no fraction bits are left
  return (x + kMagic) - kMagic;
}
// A code even where a stranger's weight is not a number: max gives its first operand then.
inline float code_of(float t, float minimum, float inverse) {
  return nearest(std::min(std::max(0.0f, (t - minimum) * inverse), 15.0f));
}
inline float inverse_of(float scale) { return scale > 0 ? 1 / scale : 0; }

// To what f16 can hold. Out of line in tensor/: clang 19 drops inline functions of files that have clones.
void to_half(float* v) {
  for (int64_t l = 0; l < kLanes; ++l) {
    uint16_t half;
    store_float(&half, DType::kF16, 0, v[l]);
    v[l] = load_float(&half, DType::kF16, 0);
  }
}

// kLanes rows on their way: everything is [K or group][kLanes], rows past the weight's end are zero.
struct Tile {
  std::vector<float> w, e, code;            // [K][kLanes]: weight, weight minus its codes' value, codes
  std::vector<float> scale, minimum;        // [K / group][kLanes]
  std::vector<float> t, gradient, product;  // [group][kLanes]
  Tile(int64_t k, int64_t group)
      : w(size(k)), e(size(k)), code(size(k)), scale(size(k / group)), minimum(size(k / group)), t(size(group)), gradient(size(group)), product(size(group)) {}
  static size_t size(int64_t n) { return static_cast<size_t>(n * kLanes); }
};

// Scales and minimums of one group for the targets t: the full range is shrunk in small steps, scale and minimum are fitted
// to the codes by least squares, and the best by weighted squared error is kept.
BRISK_CLONES void fit(const float* t, const float* weight, int64_t group, float* scale, float* minimum) {
  float low[kLanes], high[kLanes], best[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) low[l] = high[l] = t[l], best[l] = INFINITY;
  for (int64_t i = 1; i < group; ++i)
    for (int64_t l = 0; l < kLanes; ++l) low[l] = std::min(low[l], t[i * kLanes + l]), high[l] = std::max(high[l], t[i * kLanes + l]);
  float total = 0;
  for (int64_t i = 0; i < group; ++i) total += weight[i];
  for (int64_t l = 0; l < kLanes; ++l) scale[l] = 0, minimum[l] = low[l];
  to_half(minimum);
  for (int step = 0; step <= 14; ++step) {
    float s[kLanes], m[kLanes], inverse[kLanes], error[kLanes] = {};
    float sw[kLanes] = {}, sq[kLanes] = {}, sqq[kLanes] = {}, swq[kLanes] = {};
    float shrink = 1.0f - 0.025f * static_cast<float>(step);
    for (int64_t l = 0; l < kLanes; ++l) {
      float range = (high[l] - low[l]) * shrink;
      s[l] = range / 15, m[l] = (low[l] + high[l] - range) / 2, inverse[l] = inverse_of(s[l]);
    }
    for (int64_t i = 0; i < group; ++i)
      for (int64_t l = 0; l < kLanes; ++l) {
        float v = t[i * kLanes + l], q = code_of(v, m[l], inverse[l]), wq = weight[i] * q;
        sw[l] += weight[i] * v, sq[l] += wq, sqq[l] += wq * q, swq[l] += wq * v;
      }
    for (int64_t l = 0; l < kLanes; ++l) {
      float d = total * sqq[l] - sq[l] * sq[l], slope = d > 0 ? (total * swq[l] - sq[l] * sw[l]) / d : 0;
      if (slope > 0) s[l] = slope, m[l] = (sw[l] - slope * sq[l]) / total;
    }
    to_half(s), to_half(m);
    for (int64_t l = 0; l < kLanes; ++l) inverse[l] = inverse_of(s[l]);
    for (int64_t i = 0; i < group; ++i)
      for (int64_t l = 0; l < kLanes; ++l) {
        float v = t[i * kLanes + l], d = v - (code_of(v, m[l], inverse[l]) * s[l] + m[l]);
        error[l] += weight[i] * d * d;
      }
    for (int64_t l = 0; l < kLanes; ++l)
      if (error[l] < best[l]) best[l] = error[l], scale[l] = s[l], minimum[l] = m[l];
  }
}

// Rounds the columns of one group in order; t holds their targets under the feedback of all columns before the group.
BRISK_CLONES void round_group(const float* feedback, int64_t k, int64_t from, int64_t group, const float* scale, const float* minimum,
                              const float* w, float* t, float* e, float* code) {
  float inverse[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) inverse[l] = inverse_of(scale[l]);
  for (int64_t i = 0; i < group; ++i) {
    const float* u = feedback + (from + i) * k + from;
    float* x = t + i * kLanes;
    for (int64_t j = 0; j < i; ++j)
      for (int64_t l = 0; l < kLanes; ++l) x[l] += u[j] * e[j * kLanes + l];
    for (int64_t l = 0; l < kLanes; ++l) {
      float q = code_of(x[l], minimum[l], inverse[l]);
      code[i * kLanes + l] = q;
      e[i * kLanes + l] = w[i * kLanes + l] - (q * scale[l] + minimum[l]);
    }
  }
}

// The best scale and minimum of one group for its codes, all else fixed: a system of two unknowns a row. `gradient` is
// H e for the group's columns; it and e follow the change. h: the group's block of H, row stride k.
BRISK_CLONES void refit(const float* h, int64_t k, int64_t group, const float* code, float* scale, float* minimum, float* e,
                        float* gradient, float* product) {
  float a[kLanes] = {}, b[kLanes] = {}, r1[kLanes] = {}, r2[kLanes] = {}, c = 0, s[kLanes], m[kLanes], ds[kLanes], dm[kLanes];
  for (int64_t i = 0; i < group; ++i) {
    float* p = product + i * kLanes;  // (H code)_i
    for (int64_t l = 0; l < kLanes; ++l) p[l] = 0;
    for (int64_t j = 0; j < group; ++j) {
      c += h[i * k + j];
      for (int64_t l = 0; l < kLanes; ++l) p[l] += h[i * k + j] * code[j * kLanes + l];
    }
    for (int64_t l = 0; l < kLanes; ++l) {
      float g = gradient[i * kLanes + l], q = code[i * kLanes + l];
      a[l] += q * p[l], b[l] += p[l], r1[l] += q * g, r2[l] += g;
    }
  }
  for (int64_t l = 0; l < kLanes; ++l) {
    float d = a[l] * c - b[l] * b[l];
    bool solvable = d > 1e-4f * a[l] * c;
    s[l] = solvable ? scale[l] + (r1[l] * c - r2[l] * b[l]) / d : scale[l];
    m[l] = solvable ? minimum[l] + (r2[l] * a[l] - r1[l] * b[l]) / d : minimum[l];
  }
  to_half(s), to_half(m);
  for (int64_t l = 0; l < kLanes; ++l) {
    ds[l] = s[l] - scale[l], dm[l] = m[l] - minimum[l];
    // What the loss gains, rounding to f16 included; nothing is changed for nothing.
    float gain = 2 * (ds[l] * r1[l] + dm[l] * r2[l]) - (ds[l] * ds[l] * a[l] + 2 * ds[l] * dm[l] * b[l] + dm[l] * dm[l] * c);
    if (!(gain > 0) || !(s[l] > 0)) ds[l] = dm[l] = 0;
    scale[l] += ds[l], minimum[l] += dm[l];
  }
  for (int64_t i = 0; i < group; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < group; ++j) sum += h[i * k + j];
    for (int64_t l = 0; l < kLanes; ++l) {
      e[i * kLanes + l] -= ds[l] * code[i * kLanes + l] + dm[l];
      gradient[i * kLanes + l] -= ds[l] * product[i * kLanes + l] + dm[l] * sum;
    }
  }
}

// Each code of the group in turn becomes the best one, all else fixed.
BRISK_CLONES void descend(const float* h, int64_t k, int64_t group, const float* scale, const float* minimum, const float* w, float* code,
                          float* e, float* gradient) {
  float inverse[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) inverse[l] = inverse_of(scale[l]);
  for (int64_t i = 0; i < group; ++i) {
    float* x = e + i * kLanes;
    float change[kLanes], per = 1 / h[i * k + i];
    for (int64_t l = 0; l < kLanes; ++l) {
      float wanted = w[i * kLanes + l] - (x[l] - gradient[i * kLanes + l] * per);
      float q = code_of(wanted, minimum[l], inverse[l]);
      float now = w[i * kLanes + l] - (q * scale[l] + minimum[l]);
      change[l] = now - x[l];
      x[l] = now, code[i * kLanes + l] = q;
    }
    for (int64_t j = 0; j < group; ++j)
      for (int64_t l = 0; l < kLanes; ++l) gradient[j * kLanes + l] += h[j * k + i] * change[l];
  }
}

}  // namespace

Result<Gptq> Gptq::create(std::vector<float> h, int64_t k, const GptqOptions& o) {
  auto at = [k](int64_t i, int64_t j) { return static_cast<size_t>(i * k + j); };
  if (k <= 0 || o.group <= 0 || o.group % 4 || k % o.group || h.size() != at(k, 0)) return internal("gptq: wrong sizes");
  double mean = 0;
  for (float v : h)
    if (!std::isfinite(v)) return invalid("calibration: a layer's inputs are not finite");
  for (int64_t i = 0; i < k; ++i) mean += static_cast<double>(h[at(i, i)]) / static_cast<double>(k);
  if (!(mean > 0)) mean = 1;  // nothing was ever seen here: plain rounding
  Gptq g;
  g.k_ = k;
  g.options_ = o;
  std::vector<float> factor(h.size());
  for (double damping = o.damping;; damping *= 10) {
    if (damping > 1e6) return internal("gptq: a matrix of second moments that no damping makes definite");
    // The factor runs from the last column to the first: of the matrix turned round, it is the usual lower one.
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j <= i; ++j)
        factor[at(i, j)] = h[at(k - 1 - i, k - 1 - j)] + (i == j ? static_cast<float>(damping * mean) : 0.0f);
    if (!cholesky(factor, k, o.threads)) continue;
    for (int64_t i = 0; i < k; ++i) h[at(i, i)] += static_cast<float>(damping * mean);
    break;
  }
  g.feedback_.resize(h.size());
  for (int64_t i = 0; i < k; ++i) {
    float pivot = factor[at(k - 1 - i, k - 1 - i)];
    g.variance_.push_back(pivot * pivot);
    for (int64_t j = 0; j < i; ++j) g.feedback_[at(i, j)] = factor[at(k - 1 - j, k - 1 - i)] / pivot;
  }
  g.h_ = std::move(h);
  return g;
}

ConstantPtr Gptq::quantize(const Constant& weight) const {
  int64_t k = k_, group = options_.group, n = weight.count() / k, groups = k / group;
  std::vector<std::byte> codes(static_cast<size_t>(n * k / 2)), scales(static_cast<size_t>(n * groups * 2)), minimums(scales.size());
  parallel_for((n + kLanes - 1) / kLanes, options_.threads, [&](int64_t block) {
    int64_t first = block * kLanes, rows = std::min(kLanes, n - first);
    Tile tile(k, group);
    std::vector<float> row(static_cast<size_t>(k));
    for (int64_t l = 0; l < rows; ++l) {
      dequantize_rows(weight, first + l, 1, row.data());
      for (int64_t i = 0; i < k; ++i) tile.w[static_cast<size_t>(i * kLanes + l)] = row[static_cast<size_t>(i)];
    }
    for (int64_t g = 0; g < groups; ++g) {
      int64_t from = g * group;
      std::copy_n(tile.w.data() + from * kLanes, group * kLanes, tile.t.data());
      accumulate(feedback_.data() + from * k, k, group, tile.e.data(), from, tile.t.data());
      fit(tile.t.data(), variance_.data() + from, group, tile.scale.data() + g * kLanes, tile.minimum.data() + g * kLanes);
      round_group(feedback_.data(), k, from, group, tile.scale.data() + g * kLanes, tile.minimum.data() + g * kLanes,
                  tile.w.data() + from * kLanes, tile.t.data(), tile.e.data() + from * kLanes, tile.code.data() + from * kLanes);
    }
    for (int sweep = 0; sweep < options_.sweeps; ++sweep)
      for (int64_t g = 0; g < groups; ++g) {
        int64_t from = g * group;
        const float* h = h_.data() + from * k + from;
        float *scale = tile.scale.data() + g * kLanes, *minimum = tile.minimum.data() + g * kLanes;
        float *code = tile.code.data() + from * kLanes, *e = tile.e.data() + from * kLanes;
        std::fill(tile.gradient.begin(), tile.gradient.end(), 0.0f);
        accumulate(h_.data() + from * k, k, group, tile.e.data(), k, tile.gradient.data());
        refit(h, k, group, code, scale, minimum, e, tile.gradient.data(), tile.product.data());
        descend(h, k, group, scale, minimum, tile.w.data() + from * kLanes, code, e, tile.gradient.data());
      }
    for (int64_t l = 0; l < rows; ++l) {
      int64_t r = first + l;
      for (int64_t i = 0; i < k; i += 2) {
        auto q = [&](int64_t c) { return static_cast<unsigned>(tile.code[static_cast<size_t>(c * kLanes + l)]); };
        codes[static_cast<size_t>((r * k + i) / 2)] = static_cast<std::byte>(q(i) | q(i + 1) << 4);
      }
      for (int64_t g = 0; g < groups; ++g) {
        store_float(scales.data(), DType::kF16, r * groups + g, tile.scale[static_cast<size_t>(g * kLanes + l)]);
        store_float(minimums.data(), DType::kF16, r * groups + g, tile.minimum[static_cast<size_t>(g * kLanes + l)]);
      }
    }
  });
  auto out = std::make_shared<Constant>();
  out->dtype = DType::kF32;
  out->shape = weight.shape;
  out->encoding = {4, DType::kU4, DType::kF16, Encoding::Offset::kMinimum, -1, static_cast<int32_t>(group)};
  out->data = Buffer::of(std::move(codes));
  out->scales = Buffer::of(std::move(scales));
  out->offsets = Buffer::of(std::move(minimums));
  return out;
}

}  // namespace brisk
