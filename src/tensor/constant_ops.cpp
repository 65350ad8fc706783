#include "tensor/constant_ops.h"

#include <algorithm>

namespace brisk {
namespace {

constexpr Buffer Constant::*kPlanes[] = {&Constant::data, &Constant::scales, &Constant::offsets};

int64_t rows_of(const Constant& c) {
  int64_t k = c.shape.rank ? c.shape[c.shape.rank - 1] : 1;
  return k ? c.count() / k : 0;
}

ConstantPtr pick_rows(const std::vector<const Constant*>& from, const std::vector<std::pair<size_t, int64_t>>& order,
                      const Dims& shape) {
  auto out = std::make_shared<Constant>();
  out->dtype = from[0]->dtype;
  out->shape = shape;
  out->encoding = from[0]->encoding;
  for (auto plane : kPlanes) {
    std::vector<size_t> width;
    for (auto* c : from) {
      int64_t rows = rows_of(*c);
      width.push_back(rows ? (c->*plane).bytes.size() / static_cast<size_t>(rows) : 0);
    }
    std::vector<std::byte> bytes(order.size() * width[0]);
    auto* to = bytes.data();
    for (auto& [source, row] : order) {
      if (width[source]) std::memcpy(to, (from[source]->*plane).bytes.data() + static_cast<size_t>(row) * width[source], width[source]);
      to += width[source];
    }
    if (!bytes.empty()) (*out).*plane = Buffer::of(std::move(bytes));
  }
  return out;
}

Status alike(const Constant& a, const Constant& b) {
  if (a.dtype != b.dtype || !(a.encoding == b.encoding) || a.shape.rank != 2 || b.shape.rank != 2 || a.shape[1] != b.shape[1])
    return invalid("weights differ in form: " + to_string(a.shape) + " " + to_string(a.encoding) + " and " +
                   to_string(b.shape) + " " + to_string(b.encoding));
  return {};
}

// By blocks that stay in the nearest cache on both sides.
template <int64_t size> void transpose_elements(const std::byte* from, int64_t rows, int64_t columns, std::byte* to) {
  constexpr int64_t kBlock = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock)
    for (int64_t j0 = 0; j0 < columns; j0 += kBlock)
      for (int64_t j = j0; j < std::min(columns, j0 + kBlock); ++j)
        for (int64_t r = r0; r < std::min(rows, r0 + kBlock); ++r) std::memcpy(to + (j * rows + r) * size, from + (r * columns + j) * size, size);
}

}  // namespace

Result<ConstantPtr> concat_rows(const std::vector<ConstantPtr>& parts) {
  std::vector<const Constant*> from;
  std::vector<std::pair<size_t, int64_t>> order;
  for (size_t i = 0; i < parts.size(); ++i) {
    BRISK_TRY(alike(*parts[0], *parts[i]));
    from.push_back(parts[i].get());
    for (int64_t r = 0; r < parts[i]->shape[0]; ++r) order.emplace_back(i, r);
  }
  return pick_rows(from, order, {static_cast<int64_t>(order.size()), parts[0]->shape[1]});
}

Result<ConstantPtr> interleave_rows(const ConstantPtr& a, const ConstantPtr& b) {
  BRISK_TRY(alike(*a, *b));
  if (a->shape[0] != b->shape[0]) return invalid("weights of " + std::to_string(a->shape[0]) + " and " + std::to_string(b->shape[0]) + " rows");
  std::vector<std::pair<size_t, int64_t>> order;
  for (int64_t r = 0; r < a->shape[0]; ++r) order.emplace_back(0, r), order.emplace_back(1, r);
  return pick_rows({a.get(), b.get()}, order, {2 * a->shape[0], a->shape[1]});
}

ConstantPtr permute_rows(const Constant& c, const std::vector<int64_t>& order) {
  std::vector<std::pair<size_t, int64_t>> rows;
  for (int64_t r : order) rows.emplace_back(0, r);
  int64_t k = c.shape.rank ? c.shape[c.shape.rank - 1] : 1, n = static_cast<int64_t>(order.size());
  return pick_rows({&c}, rows, n * k == c.count() ? c.shape : Dims{n, k});
}

ConstantPtr transposed(const Constant& c) {
  const int rank = c.shape.rank;
  const int64_t rows = c.shape[rank - 2], columns = c.shape[rank - 1], size = dtype_bits(c.dtype) / 8, matrices = c.shape.count(0, rank - 2);
  std::vector<std::byte> bytes(static_cast<size_t>(c.count() * size));
  auto transpose = size == 1 ? transpose_elements<1> : size == 2 ? transpose_elements<2> : size == 4 ? transpose_elements<4> : transpose_elements<8>;
  for (int64_t m = 0, each = rows * columns * size; m < matrices; ++m) transpose(c.data.bytes.data() + m * each, rows, columns, bytes.data() + m * each);
  auto out = std::make_shared<Constant>();
  out->dtype = c.dtype;
  out->shape = c.shape;
  out->shape[rank - 2] = columns;
  out->shape[rank - 1] = rows;
  out->data = Buffer::of(std::move(bytes));
  return out;
}

bool same_content(const Constant& a, const Constant& b) {
  if (a.dtype != b.dtype || !(a.shape == b.shape) || !(a.encoding == b.encoding)) return false;
  return std::all_of(std::begin(kPlanes), std::end(kPlanes), [&](auto plane) {
    auto x = (a.*plane).bytes, y = (b.*plane).bytes;
    return x.size() == y.size() && (x.data() == y.data() || std::equal(x.begin(), x.end(), y.begin()));
  });
}

}  // namespace brisk
