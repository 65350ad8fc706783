#include "backend/cpu/matmul.h"

#include <algorithm>

#include "backend/cpu/pack.h"
#include "backend/cpu/panel_product.h"

namespace brisk::cpu {
namespace {

class MatMulSource : public PanelSource {
 public:
  MatMulSource(const KernelTable& t, const MatMulCall& c) : t_(t), c_(c) {}
  const float* a(int64_t g) const override { return c_.a + place(g, c_.a_strides); }
  void pack(int64_t g, int64_t panel, int64_t k0, int64_t count, float* out) const override {
    const float* b = c_.b + place(g, c_.b_strides);
    int64_t column = panel * kPanel;
    int columns = static_cast<int>(std::min<int64_t>(kPanel, c_.n - column));
    if (c_.trans_b) t_.pack_transposed(b + column * c_.k + k0, c_.k, columns, count, out);
    else t_.pack_straight(b + k0 * c_.n + column, c_.n, columns, count, out);
  }
  void finish(int64_t g, int64_t row, int64_t panel, FinishCall& f) const override {
    int64_t column = panel * kPanel, at = (g * c_.m + row) * c_.n + column;
    f.scale = c_.alpha;
    if (c_.row_bias) f.row_bias = c_.row_bias + row;
    if (c_.column_bias) f.column_bias = c_.column_bias + column;
    if (c_.residual) f.residual = c_.residual + at;
    f.y = c_.y + at;
    f.ldy = c_.n;
  }

 private:
  int64_t place(int64_t g, const Dims& strides) const {
    int64_t at = 0;
    for (int i = c_.batch.rank - 1; i >= 0; i--) {
      at += g % c_.batch[i] * strides[i];
      g /= c_.batch[i];
    }
    return at;
  }
  const KernelTable& t_;
  const MatMulCall& c_;
};

}  // namespace

void matmul(const KernelTable& t, ThreadPool& pool, const MatMulCall& c) {
  ProductShape s;
  s.matrices = c.batch.count();
  s.m = c.m;
  s.n = c.n;
  s.k = s.lda = c.k;
  multiply(t, pool, s, MatMulSource(t, c));
}

}  // namespace brisk::cpu
