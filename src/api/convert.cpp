#include "api/convert.h"

namespace brisk {

Result<ConstantPtr> to_constant(const Tensor& t) {
  auto dtype = dtype_from_name(t.dtype);
  if (!dtype || *dtype == DType::kString) return invalid("dtype '" + t.dtype + "' is not a tensor's");
  if (t.shape.size() > kMaxRank) return invalid("rank " + std::to_string(t.shape.size()) + ", at most " + std::to_string(kMaxRank));
  auto count = checked_count(t.shape);
  if (!count) return invalid("shape holds a negative size or overflows");
  if (dtype_bytes(*dtype, *count) != static_cast<int64_t>(t.data.size()))
    return invalid("data has " + std::to_string(t.data.size()) + " bytes, the shape needs " + std::to_string(dtype_bytes(*dtype, *count)));
  auto c = std::make_shared<Constant>();
  c->dtype = *dtype;
  c->shape = Dims(t.shape);
  c->data = Buffer::of(t.data);
  return ConstantPtr(std::move(c));
}

Tensor to_tensor(const Constant& c) {
  Tensor t;
  t.dtype = dtype_name(c.dtype);
  t.shape.assign(c.shape.begin(), c.shape.end());
  t.data.assign(c.data.bytes.begin(), c.data.bytes.end());
  return t;
}

}  // namespace brisk
