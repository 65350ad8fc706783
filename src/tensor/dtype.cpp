#include "tensor/dtype.h"

namespace brisk {
namespace {
enum Class { kFloatClass, kIntClass, kOther };
struct Row { std::string_view name; int bits; Class cls; };
constexpr Row kTable[kDTypeCount] = {
    {"f32", 32, kFloatClass}, {"f16", 16, kFloatClass}, {"bf16", 16, kFloatClass}, {"f64", 64, kFloatClass},
    {"i8", 8, kIntClass},     {"u8", 8, kIntClass},     {"i16", 16, kIntClass},    {"u16", 16, kIntClass},
    {"i32", 32, kIntClass},   {"u32", 32, kIntClass},   {"i64", 64, kIntClass},    {"u64", 64, kIntClass},
    {"bool", 8, kOther},      {"i4", 4, kIntClass},     {"u4", 4, kIntClass},      {"f8e4m3", 8, kFloatClass},
    {"f8e5m2", 8, kFloatClass}, {"f8e4m3fnuz", 8, kFloatClass}, {"f8e5m2fnuz", 8, kFloatClass},
    {"f8e8m0", 8, kFloatClass}, {"f4e2m1", 4, kFloatClass}, {"i2", 2, kIntClass}, {"u2", 2, kIntClass},
    {"string", 0, kOther},
};
const Row& row(DType t) { return kTable[static_cast<int>(t)]; }
}  // namespace

std::string_view dtype_name(DType t) { return row(t).name; }
int dtype_bits(DType t) { return row(t).bits; }
bool is_float(DType t) { return row(t).cls == kFloatClass; }
bool is_integer(DType t) { return row(t).cls == kIntClass; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kTable[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace brisk
