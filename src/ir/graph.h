// The internal representation: a graph of nodes in execution order over values in single assignment.
//
// Values and nodes are plain records addressed by index. Node order in `nodes` is execution order (the verifier checks
// that definitions come before uses). Sub-graphs of If, Loop and Scan are closed: what a body reads from outside is
// passed to it as trailing operands of its node (captures), so every pass can treat a body as a graph of its own.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "op/op.h"
#include "tensor/tensor.h"

namespace brisk {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr ValueId kNoValue = -1;  // an absent optional operand

struct Value {
  std::string name;   // of the source file where there is one; unique within its graph
  Type type;
  ConstantPtr constant;  // set for weights and folded values
};

struct Graph;

struct Node {
  OpId op = OpId::kIdentity;
  Attrs attrs;
  std::vector<ValueId> inputs;   // kNoValue: absent
  std::vector<ValueId> outputs;  // kNoValue: not wanted (only where optional)
  std::string name;              // of the source file, for messages: "/model/layers.0/mlp/MatMul"
  std::vector<Graph> blocks;     // If: then, else; Loop and Scan: body
  int captures = 0;              // how many trailing operands are captures, appended to each block's inputs
};

// Per-sequence state that a function reads and writes across calls.
struct StateSpec {
  enum class Kind : uint8_t {
    kPagedKv,  // keys and values of one layer: blocks of kBlockTokens tokens; width = 2 * kv_heads * head_dim elements a token
    kSlots,    // one record of `width` elements for each running sequence
  };
  ValueId value = kNoValue;  // the operand that stands for it
  std::string name;          // "kv.0", "last_ids"
  Kind kind = Kind::kPagedKv;
  DType dtype = DType::kF32;
  int64_t kv_heads = 0, head_dim = 0;  // paged
  int64_t width = 0;                   // slots
};

struct Graph {
  std::string name = "main";
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs, outputs;
  std::vector<StateSpec> states;
  std::map<std::string, SymbolRange> symbols;  // ranges of those that inputs introduce; others are data-dependent
  int next_symbol = 0;                         // counter behind InferContext::fresh

  ValueId add_value(std::string name, Type type = {});
  ValueId add_input(std::string name, Type type);
  ValueId add_constant(std::string name, ConstantPtr c);
  ValueId add_state(StateSpec spec);
  // Appends a node with fresh outputs, whose types come from the operator's rule. The error names node and operator.
  Result<std::vector<ValueId>> add_node(OpId op, Attrs attrs, std::vector<ValueId> in, int outputs = 1, std::string name = {});
  // The same for operators of one result.
  Result<ValueId> add(OpId op, Attrs attrs, std::vector<ValueId> in, std::string name = {});

  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  const Constant* constant(ValueId id) const { return id < 0 ? nullptr : value(id).constant.get(); }
  bool is_input(ValueId id) const;
  bool is_output(ValueId id) const;
  bool is_state(ValueId id) const;

  // Index into `nodes` of the producer of each value (-1: none), and of its readers. Recompute after a change.
  std::vector<NodeId> producers() const;
  std::vector<std::vector<NodeId>> users() const;

  // Every use of `from` (operands and graph outputs) becomes a use of `to`.
  void replace_uses(ValueId from, ValueId to);
  // Drops nodes marked dead (by index) and values that nothing mentions any more; ids change.
  void compact(const std::vector<bool>& dead_nodes = {});
};

// Runs the operator's rule on the node's current operands and writes the result types; refined shapes replace old ones.
Status infer_node(Graph& g, Node& n);
// infer_node over the whole graph in order, blocks included.
Status infer_graph(Graph& g);

// Structure, arity, attribute structs, definitions before uses, unique producers, types that agree with the rules,
// closed blocks. Errors are kInternal: a graph that a pass broke. `after` names the pass for the message.
Status verify(const Graph& g, std::string_view after = {});

// Text for people: one line a node.
std::string print(const Graph& g);

// A model as importers give it: named functions and what belongs to them.
struct Model {
  std::map<std::string, Graph> functions;       // "step" (generative), "main" (any other)
  std::map<std::string, std::string> metadata;  // "architecture", "source_format", ...: no paths, no times
  std::string tokenizer;                        // serialised Tokenizer, or empty
  std::string chat_template;                    // Jinja source, or empty
  std::string generation_config;                // JSON of defaults (eos ids, temperature, ...), or empty
  int64_t max_context = 0;                      // positions a generative model was made for; 0: not generative
  std::string default_precision;                // what --precision is when not given: "int4w", "int8w", "bf16", "fp32"
  std::vector<std::string> notes;               // what the importer had to say (ignored tensors, ...)
};

// Runs a graph on given inputs, somewhere; the compiler implements it with the runtime, for folding and calibration.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // One list of inputs after the other through the same graph. Its states start as zeros, with room for `state_units`
  // blocks (paged) or slots.
  virtual Result<std::vector<std::vector<ConstantPtr>>> run_each(const Graph& g, std::span<const std::vector<ConstantPtr>> inputs,
                                                                 int64_t state_units) = 0;
  Result<std::vector<ConstantPtr>> run(const Graph& g, const std::vector<ConstantPtr>& inputs) {
    BRISK_ASSIGN(auto all, run_each(g, std::span(&inputs, 1), 0));
    return std::move(all[0]);
  }
};

}  // namespace brisk
