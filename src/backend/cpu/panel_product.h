// C[m][n] = A[m][k] B[k][n] for many matrices at once, where B is no constant: 32 columns of it at a time are packed into a
// panel (as pack.h's kF32: [k][32]) just before they are multiplied, by whoever knows where they come from.
//
// Every element is one chain over k in ascending order, whatever the sizes and the number of threads.
#pragma once
#include <cstdint>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/thread_pool.h"

namespace brisk::cpu {

// Where operands come from and results go to. Called from several threads at once.
class PanelSource {
 public:
  virtual ~PanelSource() = default;
  // Row 0 of A of matrix g.
  virtual const float* a(int64_t g) const = 0;
  // Rows [k0, k0 + count) of columns [32 panel, 32 panel + 32) of B, zero beyond n.
  virtual void pack(int64_t g, int64_t panel, int64_t k0, int64_t count, float* out) const = 0;
  // The same where it lies packed already; null: pack() is asked.
  virtual const float* packed(int64_t g, int64_t panel, int64_t k0) const { return (void)g, (void)panel, (void)k0, nullptr; }
  // Sets what finishes rows [row, row + f.rows) of a panel: y, ldy, bias, residual, activation; acc, rows and n are set.
  virtual void finish(int64_t g, int64_t row, int64_t panel, FinishCall& f) const = 0;
  // Finishes them: by finish(), unless the product is one of integers.
  virtual void store(const KernelTable& t, int64_t g, int64_t row, int64_t panel, FinishCall& f) const {
    finish(g, row, panel, f);
    t.finish(f);
  }
};

// A source of words of four bytes in place of floats; k, lda and the tile count words.
class IntegerSource : public PanelSource {
 public:
  void finish(int64_t, int64_t, int64_t, FinishCall&) const final {}
  virtual void finish_integers(int64_t g, int64_t row, int64_t panel, IntegerFinishCall& f) const = 0;
  void store(const KernelTable& t, int64_t g, int64_t row, int64_t panel, FinishCall& f) const final {
    IntegerFinishCall i;
    i.acc = f.acc;
    i.rows = f.rows;
    i.n = static_cast<int>(f.n);
    finish_integers(g, row, panel, i);
    t.finish_integers(i);
  }
};

struct ProductShape {
  int64_t matrices = 1, m = 0, n = 0, k = 0;
  int64_t lda = 0;
  const TileKernel* tile = nullptr;  // null: floats
};

void multiply(const KernelTable& t, ThreadPool& pool, const ProductShape& shape, const PanelSource& source);

}  // namespace brisk::cpu
