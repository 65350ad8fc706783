// The operator table. Each IR operator is declared once, as a row of ops.inc: name, attributes, arity, traits, type and
// shape rule. Importer, passes, verifier, printer, documentation and the conformance suite read this table.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brisk/result.h"
#include "op/attrs.h"
#include "op/type.h"
#include "tensor/tensor.h"

namespace brisk {

enum class OpId : uint16_t {
#define BRISK_OP(name, ...) k##name,
#include "op/ops.inc"
#undef BRISK_OP
  kCount
};

// Traits, or-ed together.
enum Trait : uint32_t {
  kPointwise = 1 << 0,      // output element i depends on element i of each (broadcast) operand
  kReduction = 1 << 1,      // folds whole axes
  kView = 1 << 2,           // output 0 is the bytes of operand 0 under another shape
  kMovement = 1 << 3,       // copies elements unchanged (Transpose, Concat, Gather, ...)
  kHasBlocks = 1 << 4,      // carries sub-graphs (If, Loop, Scan)
  kStateful = 1 << 5,       // reads or writes state: never folded, merged, reordered or removed
  kRandom = 1 << 6,         // never folded or merged
  kDataShape = 1 << 7,      // the output's shape depends on elements of an operand
  kRowwise = 1 << 8,        // treats each row (all axes but the last) of operand 0 alone: token-wise in a decoder
};

// What a shape rule sees and fills. At build time types are symbolic and data() is null; at run time shapes are constant
// and data(i) gives the operand's elements (host memory), so one rule serves both.
class InferContext {
 public:
  InferContext(OpId op, const Attrs& attrs, std::span<const Type* const> inputs, int outputs)
      : op_(op), attrs_(attrs), inputs_(inputs), outputs_(static_cast<size_t>(outputs)) {}

  OpId op() const { return op_; }  // for rules that several rows share
  int input_count() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return i < input_count() && inputs_[static_cast<size_t>(i)] != nullptr; }
  const Type& in(int i) const { return *inputs_[static_cast<size_t>(i)]; }
  int output_count() const { return static_cast<int>(outputs_.size()); }
  Type& out(int i = 0) { return outputs_[static_cast<size_t>(i)]; }
  template <class A> const A& attrs() const { return std::get<A>(attrs_); }

  // The elements of an integer operand, symbolic or concrete; nullopt if unknown.
  std::optional<std::vector<Dim>> elements(int i) const;
  // All of them as numbers; nullopt if any is unknown.
  std::optional<std::vector<int64_t>> numbers(int i) const;
  // Host data of an operand, where known (a constant, or run time).
  const TensorView* data(int i) const { return data_ ? data_(i) : nullptr; }
  void set_data(std::function<const TensorView*(int)> f) { data_ = std::move(f); }

  // A new symbol for a size that depends on data. `prefix` makes the name readable: "nonzero" -> "?nonzero.3".
  Dim fresh(std::string_view prefix);
  void set_symbol_counter(int* counter) { counter_ = counter; }

  std::vector<Type>& outputs() { return outputs_; }

 private:
  OpId op_;
  const Attrs& attrs_;
  std::span<const Type* const> inputs_;
  std::vector<Type> outputs_;
  std::function<const TensorView*(int)> data_;
  int* counter_ = nullptr;
  int own_counter_ = 0;
};

using InferFn = Status (*)(InferContext&);

struct OpDef {
  OpId id;
  const char* name;
  size_t attrs_index;  // alternative of Attrs
  int min_inputs, max_inputs;  // -1: any number
  int min_outputs, max_outputs;
  uint32_t traits;
  InferFn infer;
  const char* doc;  // one line, with the order of operands

  bool is(uint32_t trait) const { return (traits & trait) != 0; }
  // May be evaluated at build time when all operands are constant.
  bool foldable() const { return !is(kStateful | kRandom | kHasBlocks); }
};

const OpDef& op_def(OpId id);
inline const char* op_name(OpId id) { return op_def(id).name; }
std::optional<OpId> op_from_name(std::string_view name);
std::span<const OpDef> op_table();

// Runs a row's rule on operand types (null: absent optional operand). Checks arity and attribute struct first.
Result<std::vector<Type>> infer_types(OpId op, const Attrs& attrs, std::span<const Type* const> inputs, int outputs,
                                      int* symbol_counter = nullptr,
                                      std::function<const TensorView*(int)> data = nullptr);

// Helpers for rules.
// Numpy broadcasting of two shapes; a symbol against 1 gives the symbol; two different symbols are taken as equal to
// each other only if their forms are equal, else the result is a max() that is right whenever the operands are compatible.
Result<Shape> broadcast(const Shape& a, const Shape& b);
// Axis in [-rank, rank) -> [0, rank).
Result<int> normalize_axis(int64_t axis, int rank);

}  // namespace brisk
