#include "import/gguf/blocks.h"

#include <cmath>
#include <cstring>

#include "base/half.h"

namespace brisk {
namespace {

using Offset = Encoding::Offset;
constexpr int kSuper = 256;  // elements of a K-quant block

float half_at(const uint8_t* p) {
  f16 h;
  std::memcpy(&h, p, 2);
  return float(h);
}
uint16_t u16_at(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
uint32_t u32_at(const uint8_t* p) { return static_cast<uint32_t>(u16_at(p)) | static_cast<uint32_t>(u16_at(p + 2)) << 16; }
void put_f32(uint8_t* out, int64_t i, float v) { std::memcpy(out + i * 4, &v, 4); }

// n codes, one a byte, to two a byte, low nibble first.
void pack4(const uint8_t* q, int n, uint8_t* out) {
  for (int i = 0; i < n / 2; ++i) out[i] = static_cast<uint8_t>((q[2 * i] & 15) | q[2 * i + 1] << 4);
}

// ggml's order inside a run of 2n elements: byte j holds element j below and element n + j above.
void unpack4(const uint8_t* in, int n, uint8_t* q) {
  for (int j = 0; j < n; ++j) q[j] = in[j] & 15, q[n + j] = in[j] >> 4;
}

void decode_q4_0(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t*) {
  uint8_t q[32];
  for (int64_t b = 0; b < blocks; ++b, in += 18, codes += 16) {
    std::memcpy(scales + b * 2, in, 2);
    unpack4(in + 2, 16, q);
    for (uint8_t& v : q) v ^= 8;  // stored plus 8: to two's complement
    pack4(q, 32, codes);
  }
}

void decode_q4_1(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t* offsets) {
  uint8_t q[32];
  for (int64_t b = 0; b < blocks; ++b, in += 20, codes += 16) {
    std::memcpy(scales + b * 2, in, 2);
    std::memcpy(offsets + b * 2, in + 2, 2);
    unpack4(in + 4, 16, q);
    pack4(q, 32, codes);
  }
}

// Low nibbles as in Q4, the fifth bits in a word of 32.
void unpack5(const uint8_t* high, const uint8_t* low, uint8_t* q) {
  unpack4(low, 16, q);
  uint32_t h = u32_at(high);
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(q[i] | (h >> i & 1) << 4);
}

void decode_q5_0(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t*) {
  for (int64_t b = 0; b < blocks; ++b, in += 22, codes += 32) {
    std::memcpy(scales + b * 2, in, 2);
    unpack5(in + 2, in + 6, codes);
    for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] - 16);
  }
}

void decode_q5_1(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t* offsets) {
  for (int64_t b = 0; b < blocks; ++b, in += 24, codes += 32) {
    std::memcpy(scales + b * 2, in, 2);
    std::memcpy(offsets + b * 2, in + 2, 2);
    unpack5(in + 4, in + 8, codes);
  }
}

void decode_q8_0(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t*) {
  for (int64_t b = 0; b < blocks; ++b, in += 34, codes += 32) {
    std::memcpy(scales + b * 2, in, 2);
    std::memcpy(codes, in + 2, 32);
  }
}

// 16 groups of 16: 4-bit scales and minimums, 2-bit codes.
void decode_q2_k(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t* offsets) {
  uint8_t q[kSuper];
  for (int64_t b = 0; b < blocks; ++b, in += 84, codes += 128) {
    float d = half_at(in + 80), m = half_at(in + 82);
    for (int g = 0; g < 16; ++g) {
      put_f32(scales, b * 16 + g, d * static_cast<float>(in[g] & 15));
      put_f32(offsets, b * 16 + g, -(m * static_cast<float>(in[g] >> 4)));
    }
    for (int i = 0; i < kSuper; ++i) q[i] = in[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    pack4(q, kSuper, codes);
  }
}

// 16 groups of 16: 6-bit scales less 32, codes of 2 bits and a third that is set where nothing is subtracted.
void decode_q3_k(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t*) {
  uint8_t q[kSuper];
  for (int64_t b = 0; b < blocks; ++b, in += 110, codes += 128) {
    const uint8_t* packed = in + 96;
    float d = half_at(in + 108);
    for (int g = 0; g < 16; ++g) {
      int low = g < 8 ? packed[g] & 15 : packed[g - 8] >> 4, high = packed[8 + g % 4] >> (g / 4 * 2) & 3;
      put_f32(scales, b * 16 + g, d * static_cast<float>((low | high << 4) - 32));
    }
    for (int i = 0; i < kSuper; ++i) {
      int low = in[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3, keep = in[i % 32] >> (i / 32) & 1;
      q[i] = static_cast<uint8_t>(low - (keep ? 0 : 4));
    }
    pack4(q, kSuper, codes);
  }
}

// The twelve bytes of 6-bit scales and minimums of 8 groups that Q4_K and Q5_K share.
void k_scales(const uint8_t* p, float d, float m, int64_t first, uint8_t* scales, uint8_t* offsets) {
  for (int g = 0; g < 8; ++g) {
    int scale = g < 4 ? p[g] & 63 : (p[g + 4] & 15) | p[g - 4] >> 6 << 4;
    int minimum = g < 4 ? p[g + 4] & 63 : p[g + 4] >> 4 | p[g] >> 6 << 4;
    put_f32(scales, first + g, d * static_cast<float>(scale));
    put_f32(offsets, first + g, -(m * static_cast<float>(minimum)));
  }
}

void decode_q4_k(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t* offsets) {
  uint8_t q[kSuper];
  for (int64_t b = 0; b < blocks; ++b, in += 144, codes += 128) {
    k_scales(in + 4, half_at(in), half_at(in + 2), b * 8, scales, offsets);
    for (int run = 0; run < 4; ++run) unpack4(in + 16 + run * 32, 32, q + run * 64);
    pack4(q, kSuper, codes);
  }
}

void decode_q5_k(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t* offsets) {
  for (int64_t b = 0; b < blocks; ++b, in += 176, codes += kSuper) {
    k_scales(in + 4, half_at(in), half_at(in + 2), b * 8, scales, offsets);
    for (int run = 0; run < 4; ++run) unpack4(in + 48 + run * 32, 32, codes + run * 64);
    for (int i = 0; i < kSuper; ++i) codes[i] = static_cast<uint8_t>(codes[i] | (in[16 + i % 32] >> (i / 32) & 1) << 4);
  }
}

// 16 groups of 16: 8-bit scales, codes of 4 low and 2 high bits less 32.
void decode_q6_k(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t*) {
  for (int64_t b = 0; b < blocks; ++b, in += 210, codes += kSuper) {
    float d = half_at(in + 208);
    for (int g = 0; g < 16; ++g) put_f32(scales, b * 16 + g, d * static_cast<float>(static_cast<int8_t>(in[192 + g])));
    for (int run = 0; run < 2; ++run) unpack4(in + run * 64, 64, codes + run * 128);
    for (int i = 0; i < kSuper; ++i) {
      int high = in[128 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
      codes[i] = static_cast<uint8_t>((codes[i] | high << 4) - 32);
    }
  }
}

// Sixteen levels that are not evenly spaced, as 8-bit codes.
void look_up(const int8_t* levels, const uint8_t* in, uint8_t* codes) {
  unpack4(in, 16, codes);
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(levels[codes[i]]);
}
constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kFp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // E2M1, doubled

void decode_iq4_nl(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t*) {
  for (int64_t b = 0; b < blocks; ++b, in += 18, codes += 32) {
    std::memcpy(scales + b * 2, in, 2);
    look_up(kIq4Levels, in + 2, codes);
  }
}

void decode_iq4_xs(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t*) {
  for (int64_t b = 0; b < blocks; ++b, in += 136) {
    float d = half_at(in);
    for (int g = 0; g < 8; ++g, codes += 32) {
      int low = in[4 + g / 2] >> (g % 2 * 4) & 15, high = u16_at(in + 2) >> (2 * g) & 3;
      put_f32(scales, b * 8 + g, d * static_cast<float>((low | high << 4) - 32));
      look_up(kIq4Levels, in + 8 + g * 16, codes);
    }
  }
}

void decode_mxfp4(const uint8_t* in, int64_t blocks, uint8_t* codes, uint8_t* scales, uint8_t*) {
  for (int64_t b = 0; b < blocks; ++b, in += 17, codes += 32) {
    put_f32(scales, b, std::ldexp(1.0f, in[0] - 128));  // E8M0; halved, since the levels are doubled
    look_up(kFp4Levels, in + 1, codes);
  }
}

constexpr Encoding encoding(uint8_t bits, DType code, DType scale, int32_t group, Offset offset = Offset::kNone) {
  return {.bits = bits, .code_dtype = code, .scale_dtype = scale, .offset = offset, .axis = -1, .group = group};
}
constexpr Encoding kI4G32 = encoding(4, DType::kI4, DType::kF16, 32), kI8G32 = encoding(8, DType::kI8, DType::kF16, 32);
constexpr Encoding kU4Min = encoding(4, DType::kU4, DType::kF16, 32, Offset::kMinimum);
constexpr Encoding kU8Min = encoding(8, DType::kU8, DType::kF16, 32, Offset::kMinimum);
constexpr Encoding kI8G32Wide = encoding(8, DType::kI8, DType::kF32, 32);

// Names, numbers and sizes are the format's; types without decoder are known so that errors can name them.
constexpr BlockFormat kFormats[] = {
    {0, "F32", 1, 4, nullptr, {}, DType::kF32},
    {1, "F16", 1, 2, nullptr, {}, DType::kF16},
    {30, "BF16", 1, 2, nullptr, {}, DType::kBF16},
    {2, "Q4_0", 32, 18, decode_q4_0, kI4G32},
    {3, "Q4_1", 32, 20, decode_q4_1, kU4Min},
    {6, "Q5_0", 32, 22, decode_q5_0, kI8G32},
    {7, "Q5_1", 32, 24, decode_q5_1, kU8Min},
    {8, "Q8_0", 32, 34, decode_q8_0, kI8G32},
    {10, "Q2_K", 256, 84, decode_q2_k, encoding(4, DType::kU4, DType::kF32, 16, Offset::kMinimum)},
    {11, "Q3_K", 256, 110, decode_q3_k, encoding(4, DType::kI4, DType::kF32, 16)},
    {12, "Q4_K", 256, 144, decode_q4_k, encoding(4, DType::kU4, DType::kF32, 32, Offset::kMinimum)},
    {13, "Q5_K", 256, 176, decode_q5_k, encoding(8, DType::kU8, DType::kF32, 32, Offset::kMinimum)},
    {14, "Q6_K", 256, 210, decode_q6_k, encoding(8, DType::kI8, DType::kF32, 16)},
    {20, "IQ4_NL", 32, 18, decode_iq4_nl, kI8G32},
    {23, "IQ4_XS", 256, 136, decode_iq4_xs, kI8G32Wide},
    {39, "MXFP4", 32, 17, decode_mxfp4, kI8G32Wide},
    {9, "Q8_1", 32, 36}, {15, "Q8_K", 256, 292}, {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50}, {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},
    {24, "I8", 1, 1}, {25, "I16", 1, 2}, {26, "I32", 1, 4}, {27, "I64", 1, 8}, {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56}, {34, "TQ1_0", 256, 54}, {35, "TQ2_0", 256, 66},
};

ConstantPtr plain_tensor(DType t, const Dims& shape, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  auto c = std::make_shared<Constant>();
  c->dtype = t;
  c->shape = shape;
  size_t element = static_cast<size_t>(dtype_bits(t)) / 8;
  bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % element == 0;
  c->data = aligned ? Buffer{bytes, std::move(owner)} : Buffer::of({bytes.begin(), bytes.end()});
  return c;
}

}  // namespace

const BlockFormat* block_format(uint32_t type) {
  for (const BlockFormat& f : kFormats)
    if (f.type == type) return &f;
  return nullptr;
}

ConstantPtr decode_tensor(const BlockFormat& f, const Dims& shape, std::span<const std::byte> bytes,
                          std::shared_ptr<const void> owner) {
  if (!f.decode) return plain_tensor(f.plain, shape, bytes, std::move(owner));
  const Encoding& e = f.encoding;
  int64_t n = shape.count(), groups = n / e.group;
  auto plane = [](int64_t size) { return std::vector<std::byte>(static_cast<size_t>(size)); };
  auto codes = plane(n * e.bits / 8), scales = plane(dtype_bytes(e.scale_dtype, groups));
  auto offsets = plane(e.offset == Offset::kNone ? 0 : dtype_bytes(e.scale_dtype, groups));
  auto raw = [](std::vector<std::byte>& v) { return reinterpret_cast<uint8_t*>(v.data()); };
  f.decode(reinterpret_cast<const uint8_t*>(bytes.data()), n / f.elements, raw(codes), raw(scales), raw(offsets));
  auto c = std::make_shared<Constant>();
  c->shape = shape;
  c->encoding = e;
  c->data = Buffer::of(std::move(codes));
  c->scales = Buffer::of(std::move(scales));
  if (!offsets.empty()) c->offsets = Buffer::of(std::move(offsets));
  return c;
}

}  // namespace brisk
