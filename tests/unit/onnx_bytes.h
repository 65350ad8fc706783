// Small ONNX models written byte by byte: protobuf's wire format, as much of it as onnx-ml.proto needs.
#pragma once
#include <cctype>
#include <cstdint>
#include <string>
#include <vector>

namespace brisk::test::onnx {

inline std::string varint(uint64_t v) {
  std::string s;
  for (; v >= 128; v >>= 7) s += static_cast<char>(v | 128);
  return s + static_cast<char>(v);
}
inline std::string number(int field, uint64_t v) { return varint(static_cast<uint64_t>(field) << 3) + varint(v); }
inline std::string bytes(int field, const std::string& s) { return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(s.size()) + s; }

using Names = std::vector<std::string>;
inline std::string node(const std::string& op, const Names& in, const Names& out, const std::string& attributes = {}, const std::string& domain = {}) {
  std::string s;
  for (auto& n : in) s += bytes(1, n);
  for (auto& n : out) s += bytes(2, n);
  s += bytes(3, op + "_node") + bytes(4, op) + attributes;
  return bytes(1, domain.empty() ? s : s + bytes(7, domain));
}
inline std::string int_attribute(const std::string& name, int64_t v) { return bytes(5, bytes(1, name) + number(3, static_cast<uint64_t>(v)) + number(20, 2)); }
inline std::string graph_attribute(const std::string& name, const std::string& g) { return bytes(5, bytes(1, name) + bytes(6, g) + number(20, 5)); }
// Dims: a number, or a name if it does not start with a digit.
inline std::string value(int field, const std::string& name, int type, const Names& dims) {
  std::string shape;
  for (auto& d : dims) shape += bytes(1, std::isdigit(static_cast<unsigned char>(d[0])) ? number(1, std::stoull(d)) : bytes(2, d));
  return bytes(field, bytes(1, name) + bytes(2, bytes(1, number(1, static_cast<uint64_t>(type)) + bytes(2, shape))));
}
inline std::string input(const std::string& name, int type, const Names& dims) { return value(11, name, type, dims); }
inline std::string output(const std::string& name) { return bytes(12, bytes(1, name)); }
inline std::string int64s(const std::string& name, const std::vector<int64_t>& v) {
  std::string s = number(1, v.size()) + number(2, 7) + bytes(8, name);
  for (int64_t x : v) s += number(7, static_cast<uint64_t>(x));
  return bytes(5, s);
}
inline std::string opset(const std::string& domain, int version) { return bytes(8, bytes(1, domain) + number(2, static_cast<uint64_t>(version))); }

}  // namespace brisk::test::onnx
