#include "backend/cpu/quantize_act.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"

namespace brisk::cpu {

size_t ActForm::bytes(int64_t rows) const {
  return static_cast<size_t>(rows * terms * (padded_k + 4 * groups() + 4 * sums_per_row()));
}

ActForm act_form(const WeightLayout& w, int terms) {
  ActForm f;
  f.terms = terms;
  f.k = w.k;
  f.padded_k = w.padded_k();
  f.sum_unit = w.group == 32 ? 32 : 64;
  if (w.kind == WeightKind::kInt4) {
    f.sums = w.term == GroupTerm::kSymmetric ? ActSums::kTimes8
             : w.term == GroupTerm::kZero    ? ActSums::kPlain
                                             : ActSums::kScaled;
  }
  return f;
}

QuantizedRows::QuantizedRows(const ActForm& f, int64_t n, void* buffer) : form(f), rows(n) {
  q = static_cast<int8_t*>(buffer);  // padded_k is a multiple of 64, so the floats behind it are aligned
  scale = reinterpret_cast<float*>(q + n * f.terms * f.padded_k);
  sum = scale + n * f.terms * f.groups();
}

void QuantizedRows::quantize_row(const KernelTable& t, const float* x, int64_t row) const {
  QuantizeRowCall c;
  c.k = form.k;
  c.padded_k = form.padded_k;
  c.sum_unit = form.sum_unit;
  c.sum_form = static_cast<int>(form.sums);
  thread_local std::vector<float> rest;
  if (form.terms > 1 && static_cast<int64_t>(rest.size()) < form.padded_k) rest.resize(static_cast<size_t>(form.padded_k));
  for (int64_t term = 0, at = row * form.terms; term < form.terms; term++, at++) {
    c.x = term == 0 ? x : rest.data();
    c.rest = term + 1 < form.terms ? rest.data() : nullptr;
    c.q = q + at * form.padded_k;
    c.scale = scale + at * form.groups();
    c.sum = static_cast<int32_t*>(sum) + at * form.sums_per_row();
    t.quantize_row(c);
  }
}

void quantize_rows(const KernelTable& t, const float* x, int64_t ldx, const QuantizedRows& out, ThreadPool& pool) {
  int64_t per_chunk = std::max<int64_t>(1, 16384 / out.form.k);  // a few microseconds of work
  pool.parallel_for(ceil_div(out.rows, per_chunk), [&](int64_t chunk, int) {
    for (int64_t r = chunk * per_chunk; r < std::min(out.rows, (chunk + 1) * per_chunk); r++)
      out.quantize_row(t, x + r * ldx, r);
  });
}

}  // namespace brisk::cpu
