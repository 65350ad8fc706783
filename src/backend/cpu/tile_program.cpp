#include "backend/cpu/tile_program.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "op/pointwise_program.h"

namespace brisk::cpu {
namespace {

constexpr int64_t kSlotBytes = kTile * 8;
constexpr double kThreadWork = 60'000;  // simple instructions of a chunk that is worth waking a thread

// What an instruction costs beside an addition.
double cost_of(OpId op) {
  switch (op) {
    case OpId::kExp: case OpId::kSigmoid: case OpId::kSilu: case OpId::kTanh: case OpId::kErf: case OpId::kGelu: case OpId::kLog:
    case OpId::kSoftplus: case OpId::kMish: case OpId::kElu: case OpId::kCelu: case OpId::kSelu: case OpId::kSin: case OpId::kCos:
      return 10;
    case OpId::kTan: case OpId::kAsin: case OpId::kAcos: case OpId::kAtan: case OpId::kSinh: case OpId::kCosh: case OpId::kAsinh:
    case OpId::kAcosh: case OpId::kAtanh: case OpId::kPow: case OpId::kMod:
      return 100;
    case OpId::kDiv: case OpId::kSqrt: case OpId::kReciprocal: return 3;
    default: return 1;
  }
}

void fill(char* to, const char* value, int bytes, int64_t n) {
  switch (bytes) {
    case 1: std::memset(to, *value, static_cast<size_t>(n)); return;
    case 2: { uint16_t v; std::memcpy(&v, value, 2); std::fill_n(reinterpret_cast<uint16_t*>(to), n, v); return; }
    case 4: { uint32_t v; std::memcpy(&v, value, 4); std::fill_n(reinterpret_cast<uint32_t*>(to), n, v); return; }
    default: { uint64_t v; std::memcpy(&v, value, 8); std::fill_n(reinterpret_cast<uint64_t*>(to), n, v); return; }
  }
}

// Scratch of this thread, 64-byte aligned.
char* scratch(size_t bytes) {
  thread_local std::vector<char> memory;
  if (memory.size() < bytes + 64) memory.resize(bytes + 64);
  return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
}

}  // namespace

std::unique_ptr<TileProgram> TileProgram::make(const LightTable& table, std::span<const DType> operands,
                                               std::span<const TileInstruction> code, DType result) {
  std::unique_ptr<TileProgram> p(new TileProgram);
  for (DType t : operands) {
    DType r = register_type(t);
    p->types_.push_back(r);
    p->register_of_.push_back(static_cast<int>(p->register_of_.size()));
    p->load_.push_back(r == t ? nullptr : table.convert(t, r));
  }
  for (const TileInstruction& i : code)
    if (!p->append(table, i)) return nullptr;
  if (p->steps_.empty() || p->types_.back() != register_type(result)) return nullptr;
  if (p->types_.back() != result) p->store_ = table.convert(p->types_.back(), result);
  p->cost_ += static_cast<double>(operands.size()) * 2 + 2;  // reading and writing
  p->assign_slots(operands.size());
  return p;
}

int TileProgram::push(TileFn fn, DType type, int a, int b, int c, float alpha, float beta) {
  steps_.push_back({fn, a, b, c, -1, alpha, beta});
  types_.push_back(type);
  return static_cast<int>(types_.size()) - 1;
}

bool TileProgram::append(const LightTable& table, const TileInstruction& i) {
  auto known = [&](int r) { return r >= 0 && r < static_cast<int>(register_of_.size()); };
  if (!known(i.a) || (i.b >= 0 && !known(i.b)) || (i.c >= 0 && !known(i.c))) return false;
  int a = register_of_[static_cast<size_t>(i.a)], b = i.b < 0 ? -1 : register_of_[static_cast<size_t>(i.b)],
      c = i.c < 0 ? -1 : register_of_[static_cast<size_t>(i.c)];
  auto type = [&](int r) { return types_[static_cast<size_t>(r)]; };
  cost_ += cost_of(i.op);
  if (i.op == OpId::kCast) {
    TileFn f = table.convert(type(a), register_type(i.to));
    if (!f) return false;
    register_of_.push_back(push(f, register_type(i.to), a));
    return true;
  }
  int arity = op_def(i.op).min_inputs;
  if ((arity > 1) != (b >= 0) || (arity > 2) != (c >= 0)) return false;
  if (i.op == OpId::kPow && type(a) != type(b)) {  // the exponent may have another type
    TileFn f = table.convert(type(b), type(a));
    if (!f) return false;
    b = push(f, type(a), b);
  }
  DType t = i.op == OpId::kWhere ? type(b) : type(a);
  if (i.op == OpId::kWhere ? type(a) != DType::kBool || type(c) != t : b >= 0 && type(b) != t) return false;
  TileFn f = table.pointwise(i.op, t, i.flag);
  if (!f) return false;
  bool predicate = i.op == OpId::kEqual || i.op == OpId::kLess || i.op == OpId::kLessOrEqual || i.op == OpId::kGreater ||
                   i.op == OpId::kGreaterOrEqual || i.op == OpId::kIsNaN || i.op == OpId::kIsInf;
  register_of_.push_back(push(f, predicate ? DType::kBool : t, a, b, c, i.alpha, i.beta));
  return true;
}

// Buffers of results are reused as soon as nobody reads them any more; the last result goes to the output.
void TileProgram::assign_slots(size_t operands) {
  std::vector<int> last(types_.size(), -1), free;
  for (size_t i = 0; i < steps_.size(); ++i)
    for (int r : {steps_[i].a, steps_[i].b, steps_[i].c})
      if (r >= 0) last[static_cast<size_t>(r)] = static_cast<int>(i);
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& s = steps_[i];
    if (i + 1 < steps_.size()) {
      if (free.empty()) free.push_back(slots_++);
      s.slot = free.back();
      free.pop_back();
      if (last[operands + i] < 0) free.push_back(s.slot);  // nobody wants it
    }
    std::vector<int> seen;
    for (int r : {s.a, s.b, s.c}) {
      if (r < static_cast<int>(operands) || last[static_cast<size_t>(r)] != static_cast<int>(i)) continue;
      if (std::find(seen.begin(), seen.end(), r) != seen.end()) continue;
      seen.push_back(r);
      free.push_back(steps_[static_cast<size_t>(r) - operands].slot);
    }
  }
}

// One execution: how operands lie along the merged axes of the result, and how it is cut into tiles.
class TileProgram::Run {
 public:
  Run(const TileProgram& p, std::span<const TensorView> in, const TensorView& out) : p_(p), out_(out) {
    lay_out(in);
    length_ = shape_.rank ? shape_[shape_.rank - 1] : 1;
    rows_ = length_ ? out.count() / length_ : 0;
    if (length_ >= kTile / 2) {
      columns_ = align_up(ceil_div(length_, ceil_div(length_, kTile)), 16);
      pieces_ = ceil_div(length_, columns_);
      tiles_ = rows_ * pieces_;
    } else {
      columns_ = length_;
      rows_a_tile_ = std::max<int64_t>(1, kTile / std::max<int64_t>(length_, 1));
      tiles_ = ceil_div(rows_, rows_a_tile_);
    }
  }

  void operator()(ThreadPool& pool) const {
    if (out_.count() == 0) return;
    double work = static_cast<double>(out_.count()) * p_.cost_;
    int64_t chunks = std::clamp<int64_t>(static_cast<int64_t>(work / kThreadWork), 1, std::min<int64_t>(tiles_, 4 * pool.size()));
    if (chunks == 1) return range(0, tiles_);
    pool.parallel_for(chunks, [&](int64_t c, int) { range(tiles_ * c / chunks, tiles_ * (c + 1) / chunks); });
  }

 private:
  enum class Form : uint8_t { kDense, kOne, kRow, kAny };  // as the result, one element, the same for each row, any other
  struct Operand {
    const char* data;
    int bytes;
    Form form;
    Dims strides;  // in elements, along shape_
  };

  void lay_out(std::span<const TensorView> in) {
    const Dims& full = out_.shape;
    std::vector<Operand>& ops = operands_;
    ops.resize(in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      Dims own;
      own.rank = full.rank;
      int lead = full.rank - in[i].shape.rank;
      int64_t n = 1;
      for (int d = full.rank - 1; d >= 0; --d) {
        int64_t size = d < lead ? 1 : in[i].shape[d - lead];
        own[d] = size == 1 ? 0 : n;
        n *= size;
      }
      ops[i] = {in[i].as<char>(), dtype_bits(in[i].dtype) / 8, Form::kAny, own};
    }
    // Axes from the outermost: one of a single element goes, one that continues its left neighbour in all operands joins it.
    std::vector<Dims> merged(in.size());
    for (int d = 0; d < full.rank; ++d) {
      if (full[d] == 1) continue;
      bool joins = shape_.rank > 0;
      for (size_t i = 0; joins && i < ops.size(); ++i) joins = merged[i][shape_.rank - 1] == ops[i].strides[d] * full[d];
      if (joins) {
        shape_[shape_.rank - 1] *= full[d];
        for (size_t i = 0; i < ops.size(); ++i) merged[i][shape_.rank - 1] = ops[i].strides[d];
      } else {
        shape_.push(full[d]);
        for (size_t i = 0; i < ops.size(); ++i) merged[i].push(ops[i].strides[d]);
      }
    }
    for (size_t i = 0; i < ops.size(); ++i) {
      Operand& o = ops[i];
      o.strides = merged[i];
      bool outer = false, dense = true;
      int64_t n = 1;
      for (int d = shape_.rank - 1; d >= 0; --d) {
        outer = outer || (d < shape_.rank - 1 && o.strides[d] != 0);
        dense = dense && o.strides[d] == n;
        n *= shape_[d];
      }
      bool inner = shape_.rank > 0 && o.strides[shape_.rank - 1] != 0;
      o.form = dense ? Form::kDense : !outer && !inner ? Form::kOne : !outer ? Form::kRow : Form::kAny;
    }
  }

  // The buffers of a thread: one for each operand, one for what is converted, then the program's.
  struct Tile {
    int64_t row = 0, rows = 0, column = 0, n = 0;  // of the tile at hand
    char* memory;
    std::vector<const void*>& reg;
    std::vector<char>& ready;  // operands whose buffer holds what every tile reads
    char* buffer(size_t i) const { return memory + static_cast<int64_t>(i) * kSlotBytes; }
  };

  void range(int64_t first, int64_t last) const {
    thread_local std::vector<const void*> reg;
    thread_local std::vector<char> ready;
    size_t inputs = operands_.size();
    reg.assign(p_.types_.size(), nullptr);
    ready.assign(inputs, 0);
    Tile t{0, 0, 0, 0, scratch((inputs + 2 + static_cast<size_t>(p_.slots_)) * kSlotBytes), reg, ready};
    int out_bytes = dtype_bits(out_.dtype) / 8;
    for (int64_t i = first; i < last; ++i) {
      if (pieces_) {
        t.row = i / pieces_, t.rows = 1, t.column = i % pieces_ * columns_;
        t.n = std::min(columns_, length_ - t.column);
      } else {
        t.row = i * rows_a_tile_, t.rows = std::min(rows_a_tile_, rows_ - t.row);
        t.n = t.rows * length_;
      }
      for (size_t k = 0; k < inputs; ++k) reg[k] = fetch(t, k);
      char* out = out_.as<char>() + (t.row * length_ + t.column) * out_bytes;
      char* result = p_.store_ ? t.buffer(inputs + 1) : out;
      for (size_t k = 0; k < p_.steps_.size(); ++k) {
        const Step& s = p_.steps_[k];
        auto at = [&](int r) { return r < 0 ? nullptr : reg[static_cast<size_t>(r)]; };
        char* to = s.slot < 0 ? result : t.buffer(inputs + 2 + static_cast<size_t>(s.slot));
        s.fn({at(s.a), at(s.b), at(s.c), to, t.n, s.alpha, s.beta});
        reg[inputs + k] = to;
      }
      if (p_.store_) p_.store_({result, nullptr, nullptr, out, t.n});
    }
  }

  // Where the operand's elements for this tile lie densely, in the type of its register.
  const void* fetch(Tile& t, size_t k) const {
    const Operand& o = operands_[k];
    size_t inputs = operands_.size();
    TileFn load = p_.load_[k];
    char* own = t.buffer(k);
    char* raw = load ? t.buffer(inputs) : own;
    const char* at = nullptr;  // where the elements lie as stored
    int64_t n = t.n;
    bool whole_rows = pieces_ == 0;
    if (o.form == Form::kDense) {
      at = o.data + (t.row * length_ + t.column) * o.bytes;
    } else if (o.form == Form::kOne || (o.form == Form::kRow && whole_rows)) {
      if (t.ready[k]) return own;
      t.ready[k] = 1;
      n = o.form == Form::kOne ? std::min<int64_t>(kTile, out_.count()) : std::min(rows_a_tile_, rows_) * length_;
      if (o.form == Form::kOne) fill(raw, o.data, o.bytes, n);
      else for (int64_t r = 0; r < n / length_; ++r) std::memcpy(raw + r * length_ * o.bytes, o.data, static_cast<size_t>(length_ * o.bytes));
      at = raw;
    } else if (whole_rows) {
      gather_rows(t, o, raw);
      at = raw;
    } else {
      int64_t offset = o.form == Form::kRow ? 0 : row_offset(o, t.row);
      if (o.strides[shape_.rank - 1] != 0) {
        at = o.data + (offset + t.column) * o.bytes;
      } else {
        fill(raw, o.data + offset * o.bytes, o.bytes, n);
        at = raw;
      }
    }
    if (!load) return at;
    load({at, nullptr, nullptr, own, n});
    return own;
  }

  int64_t row_offset(const Operand& o, int64_t row) const {
    int64_t offset = 0;
    for (int d = shape_.rank - 2; d >= 0; --d) {
      offset += row % shape_[d] * o.strides[d];
      row /= shape_[d];
    }
    return offset;
  }

  void gather_rows(const Tile& t, const Operand& o, char* to) const {
    int64_t index[kMaxRank] = {}, offset = 0, row = t.row;
    int outer = shape_.rank - 1;
    for (int d = outer - 1; d >= 0; --d) {
      index[d] = row % shape_[d];
      offset += index[d] * o.strides[d];
      row /= shape_[d];
    }
    bool one = o.strides[outer] == 0;
    int64_t bytes = length_ * o.bytes;
    for (int64_t r = 0; r < t.rows; ++r, to += bytes) {
      if (one) fill(to, o.data + offset * o.bytes, o.bytes, length_);
      else std::memcpy(to, o.data + offset * o.bytes, static_cast<size_t>(bytes));
      for (int d = outer - 1; d >= 0; --d) {
        offset += o.strides[d];
        if (++index[d] < shape_[d]) break;
        offset -= o.strides[d] * shape_[d];
        index[d] = 0;
      }
    }
  }

  const TileProgram& p_;
  const TensorView& out_;
  std::vector<Operand> operands_;
  Dims shape_;  // of the result, axes merged
  int64_t length_ = 1, rows_ = 1;               // of the innermost merged axis, and how many of those
  int64_t columns_ = 0, pieces_ = 0;            // long rows are cut into pieces of so many columns
  int64_t rows_a_tile_ = 1, tiles_ = 0;         // short ones are taken together
};

void TileProgram::run(std::span<const TensorView> in, const TensorView& out, ThreadPool& pool) const { Run(*this, in, out)(pool); }

}  // namespace brisk::cpu
