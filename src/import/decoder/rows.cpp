#include "import/decoder/rows.h"

#include "tensor/constant_ops.h"

namespace brisk {

ConstantPtr slice_rows(const ConstantPtr& c, int64_t first, int64_t count) {
  int64_t rows = c->shape[0];
  auto slice = [&](const Buffer& plane) {
    size_t bytes = rows ? plane.bytes.size() / static_cast<size_t>(rows) : 0;
    return Buffer{plane.bytes.subspan(static_cast<size_t>(first) * bytes, static_cast<size_t>(count) * bytes), plane.owner};
  };
  auto r = std::make_shared<Constant>(*c);
  r->shape[0] = count;
  r->data = slice(c->data);
  r->scales = slice(c->scales);
  r->offsets = slice(c->offsets);
  return r;
}

ConstantPtr half_split_rows(const ConstantPtr& c, int64_t heads, int64_t head_dim) {
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(heads * head_dim));
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t i = 0; i < head_dim / 2; ++i) order.push_back(h * head_dim + 2 * i + half);
  if (c->shape.rank > 1) return permute_rows(*c, order);
  Constant column = *c;
  column.shape = {c->count(), 1};
  auto r = std::make_shared<Constant>(*permute_rows(column, order));
  r->shape = c->shape;
  return r;
}

ConstantPtr as_f32(const ConstantPtr& c) {
  if (c->encoding.plain() && c->dtype == DType::kF32) return c;
  return make_constant(DType::kF32, c->shape, to_floats(*c));
}

}  // namespace brisk
