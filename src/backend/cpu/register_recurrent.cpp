// LSTM and GRU of the operator table on packed weights.
#include <algorithm>
#include <cctype>

#include "backend/cpu/cpu.h"
#include "backend/cpu/recurrent.h"

namespace brisk::cpu {
namespace {

bool named(const std::string& name, const char* want) {
  return std::equal(name.begin(), name.end(), want, want + std::char_traits<char>::length(want),
                    [](unsigned char a, char b) { return std::tolower(a) == b; });
}

// Sigmoid and tanh, in every direction.
bool usual_functions(const RecurrentAttrs& a, Cell cell) {
  size_t each = cell == Cell::kLstm ? 3 : 2, n = each * (a.direction == "bidirectional" ? 2 : 1);
  if (a.activations.size() < n) return false;
  for (size_t i = 0; i < n; i++)
    if (!named(a.activations[i], i % each == 0 ? "sigmoid" : "tanh")) return false;
  return true;
}

bool weight(const ProblemDesc& p, size_t i) {
  const OperandDesc& o = p.inputs[i];
  if (!o.present || !o.constant || !o.encoding.plain() || o.type.dtype != DType::kF32 || o.type.rank() != 3) return false;
  return std::all_of(o.type.shape.begin(), o.type.shape.end(), [](const Dim& d) { return d.constant_or(0) > 0; });
}

// All directions of a weight are bytes times one number. An engine that was built so says so by its kernel.
bool by_bytes(const OperandDesc& o) {
  if (!o.value) return true;
  int64_t n = o.value->count() / o.value->shape[0];
  for (int64_t d = 0; d < o.value->shape[0]; d++)
    if (byte_scale(o.value->as<float>() + d * n, n) == 0) return false;
  return true;
}

template <Cell cell, bool bytes> bool accepts(const ProblemDesc& p) {
  const auto& a = p.get<RecurrentAttrs>();
  if (a.clip != 0 || a.input_forget || !usual_functions(a, cell) || p.has(7)) return false;
  if (cell != Cell::kLstm && a.round_state) return false;
  if (cell != Cell::kLstm && a.linear_before_reset != (cell == Cell::kGruLate)) return false;
  if (!weight(p, 1) || !weight(p, 2) || p.inputs[0].type.dtype != DType::kF32) return false;
  if (p.inputs[0].type.ranked && p.inputs[0].type.rank() != 3) return false;  // where it is not known yet, the rule checks it
  for (size_t i : {3, 5, 6})
    if (p.has(i) && (p.inputs[i].type.dtype != DType::kF32 || !p.inputs[i].encoding.plain())) return false;
  if (p.has(4) && p.inputs[4].type.dtype != DType::kI32) return false;
  // The shapes that packing goes by.
  auto size = [&](size_t i, size_t axis) { return p.inputs[i].type.shape[axis].constant_or(0); };
  int64_t gates = cell == Cell::kLstm ? 4 : 3, d = a.direction == "bidirectional" ? 2 : 1;
  bool fits = size(1, 0) == d && size(2, 0) == d && size(1, 1) == gates * a.hidden && size(2, 1) == gates * a.hidden && size(2, 2) == a.hidden;
  return fits && (!bytes || (by_bytes(p.inputs[1]) && by_bytes(p.inputs[2])));
}

RecurrentShape weight_shape(Cell cell, bool bytes, const RecurrentAttrs& a, int64_t input) {
  RecurrentShape s;
  s.bytes = bytes;
  s.round_state = a.round_state;
  s.cell = cell;
  s.directions = a.direction == "bidirectional" ? 2 : 1;
  s.backward = a.direction == "reverse";
  s.batch_first = a.batch_first;
  s.hidden = a.hidden;
  s.input = input;
  return s;
}
RecurrentShape shape_of(Cell cell, bool bytes, const KernelArgs& k) {
  const auto& a = k.get<RecurrentAttrs>();
  const Dims& x = k.in[0].shape;
  RecurrentShape s = weight_shape(cell, bytes, a, x[2]);
  s.time = x[a.batch_first ? 1 : 0];
  s.batch = x[a.batch_first ? 0 : 1];
  return s;
}

Status check(const RecurrentShape& s, const KernelArgs& k) {
  auto wants = [&](size_t i, int64_t n) -> Status {
    if (!k.has(i) || k.in[i].count() == n) return {};
    return invalid("operand " + std::to_string(i) + " has " + std::to_string(k.in[i].count()) + " elements, wanted " + std::to_string(n));
  };
  BRISK_TRY(wants(1, s.directions * s.gates() * s.hidden * s.input));
  BRISK_TRY(wants(2, s.directions * s.gates() * s.hidden * s.hidden));
  BRISK_TRY(wants(3, s.directions * 2 * s.gates() * s.hidden));
  BRISK_TRY(wants(4, s.batch));
  BRISK_TRY(wants(5, s.directions * s.batch * s.hidden));
  BRISK_TRY(wants(6, s.directions * s.batch * s.hidden));
  for (int64_t b = 0; k.has(4) && b < s.batch; b++)
    if (int32_t n = k.in[4].as<int32_t>()[b]; n < 0 || n > s.time) return invalid("length " + std::to_string(n) + " outside [0, " + std::to_string(s.time) + "]");
  return {};
}

template <Cell cell, bool bytes> Status run(KernelContext& kc, const KernelArgs& k) {
  RecurrentCall c;
  c.shape = shape_of(cell, bytes, k);
  BRISK_TRY(check(c.shape, k));
  auto in = [&](size_t i) { return k.has(i) ? k.in[i].as<float>() : nullptr; };
  auto out = [&](size_t i) { return i < k.out.size() && k.out[i].present ? k.out[i].as<float>() : nullptr; };
  c.x = in(0);
  c.w = k.in[1].as<std::byte>();
  c.r = k.in[2].as<std::byte>();
  c.bias = in(3);
  if (k.has(4)) c.lengths = k.in[4].as<int32_t>();
  c.h0 = in(5);
  c.c0 = in(6);
  c.y = out(0);
  c.y_h = out(1);
  c.y_c = out(2);
  c.workspace = k.workspace;
  Context x = context_of(kc);
  recurrent(x.table, x.pool, c);
  return {};
}

template <Cell cell, bool bytes> KernelDesc desc(const char* id, OpId op, const char* packing) {
  KernelDesc d;
  d.id = id;
  d.op = op;
  d.requires_isa = {"avx2"};
  d.priority = bytes ? 20 : 10;
  d.numerics = id;
  d.accepts = accepts<cell, bytes>;
  d.run = run<cell, bytes>;
  d.workspace = [](const KernelArgs& k) { return shape_of(cell, bytes, k).workspace_bytes(); };
  auto shape = [](const ProblemDesc& p) { return weight_shape(cell, bytes, p.get<RecurrentAttrs>(), p.inputs[1].type.shape[2].constant_or(0)); };
  using Bytes = std::vector<std::byte>;
  auto pack_w = [](const ProblemDesc& p, const Constant& c) -> Result<Bytes> {
    RecurrentShape s = decltype(shape){}(p);
    Bytes out(static_cast<size_t>(s.directions * s.input_bytes()));
    for (int64_t i = 0; i < s.directions; i++)
      BRISK_TRY(pack_input_weights(s, c.as<float>() + i * s.gates() * s.hidden * s.input, out.data() + i * s.input_bytes()));
    return out;
  };
  auto pack_r = [](const ProblemDesc& p, const Constant& c) -> Result<Bytes> {
    RecurrentShape s = decltype(shape){}(p);
    Bytes out(static_cast<size_t>(s.directions * s.recurrent_bytes()));
    for (int64_t i = 0; i < s.directions; i++)
      pack_recurrent_weights(s, c.as<float>() + i * s.gates() * s.hidden * s.hidden, out.data() + i * s.recurrent_bytes());
    return out;
  };
  d.packings = {{1, std::string(packing) + ".w", pack_w, [](const ProblemDesc& p, const OperandDesc&) { RecurrentShape s = decltype(shape){}(p); return s.directions * s.input_bytes(); }},
                {2, std::string(packing) + ".r", pack_r, [](const ProblemDesc& p, const OperandDesc&) { RecurrentShape s = decltype(shape){}(p); return s.directions * s.recurrent_bytes(); }}};
  return d;
}

}  // namespace

void add_recurrent(Registry& r) {
  r.add(desc<Cell::kLstm, false>("cpu.Lstm.f32", OpId::kLstm, "cpu.lstm.f32"));
  r.add(desc<Cell::kGruLate, false>("cpu.Gru.late.f32", OpId::kGru, "cpu.gru.late.f32"));
  r.add(desc<Cell::kGruEarly, false>("cpu.Gru.early.f32", OpId::kGru, "cpu.gru.early.f32"));
  r.add(desc<Cell::kLstm, true>("cpu.Lstm.bytes", OpId::kLstm, "cpu.lstm.i8"));
  r.add(desc<Cell::kGruLate, true>("cpu.Gru.late.bytes", OpId::kGru, "cpu.gru.late.i8"));
  r.add(desc<Cell::kGruEarly, true>("cpu.Gru.early.bytes", OpId::kGru, "cpu.gru.early.i8"));
}

}  // namespace brisk::cpu
