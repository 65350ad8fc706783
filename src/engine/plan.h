// What an engine file holds, in memory: named plans, weights and what belongs to the model. The compiler fills an
// EngineContent and the writer stores it; the reader proves a file sound and gives the same structure back, its weight
// bytes pointing into the mapping.
//
// A plan is a flat list of steps over values. Shapes are expressions over the plan's symbols, evaluated when inputs are
// bound; arena offsets follow from them and from the values' lifetimes, so none are stored.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "kernel/kernel.h"
#include "op/op.h"
#include "tensor/tensor.h"

namespace brisk {

struct PlanValue {
  enum class Kind : uint8_t {
    kInput,     // given by the caller (or by the enclosing step, in a block)
    kWeight,    // bytes of EngineContent::weights[weight], logical dtype and shape as here
    kArena,     // made by a step, shape known once the symbols are
    kDynamic,   // made by a step, shape known only when that step runs
    kState,     // per-sequence state: Plan::states
    kView,      // the bytes of `view_of` under this shape; or of a kernel that overwrites them, read by nobody else afterwards
  };
  std::string name;
  Kind kind = Kind::kArena;
  DType dtype = DType::kF32;
  bool ranked = true;
  Shape shape;          // of kDynamic values: as far as known; fresh symbols start with '?'
  int32_t weight = -1;
  int32_t view_of = -1;
};

struct PlanState {
  enum class Kind : uint8_t { kPagedKv, kSlots };  // as StateSpec
  int32_t value = -1;
  std::string name;
  Kind kind = Kind::kPagedKv;
  DType dtype = DType::kF32;
  int64_t kv_heads = 0, head_dim = 0, width = 0;

  // Bytes of one block of kBlockTokens tokens (paged) or of one slot.
  int64_t unit_bytes() const;
};

struct Plan;

struct PlanStep {
  OpId op = OpId::kIdentity;
  Attrs attrs;
  std::string kernel;  // id; empty for steps that the executor does itself (If, Loop, Scan)
  int32_t kernel_version = 0;
  std::vector<int32_t> inputs, outputs;  // indices into Plan::values; -1: absent
  std::vector<Plan> blocks;
  int32_t captures = 0;
  bool dynamic = false;  // result shapes come from the operator's rule at run time
  std::string name;      // of the source node(s), for people
};

// The value whose bytes `v` shows: itself, or the end of its chain of views.
int32_t root_of(const Plan& plan, int32_t v);

// Does result 0 lie on an operand's bytes?
bool in_place(const Plan& plan, const PlanStep& step);

struct PlanSymbol {
  std::string name;
  int64_t min = 1, opt = 1, max = INT64_MAX;
};

struct Plan {
  std::string name;
  std::vector<PlanValue> values;
  std::vector<PlanStep> steps;
  std::vector<int32_t> inputs, outputs;
  std::vector<PlanState> states;
  std::vector<PlanSymbol> symbols;  // those that inputs introduce
  // Set by the reader, not stored: the shapes agree with the operators' rules for all values of the symbols. Where it is
  // false the executor calls check_shapes_at() (check.h) whenever it binds new shapes.
  bool shapes_proven = false;
};

struct Weight {
  std::string name;
  DType dtype = DType::kF32;   // logical
  Dims shape;                  // logical
  Encoding encoding;
  std::string packing;         // empty: plain row-major elements
  Buffer bytes;                // packed, as the kernel reads them
};

// One row of the per-layer report of a quantised build.
struct LayerLoss {
  std::string name;
  std::string encoding;
  float sqnr_db = 0;  // 10 log10(sum w^2 / sum (w - w')^2) of the weight
};

struct EngineContent {
  std::map<std::string, Plan> functions;  // "step" or "main"
  std::vector<Weight> weights;
  std::map<std::string, std::string> metadata;  // architecture, precision, label, source format, ...
  std::string tokenizer, chat_template, generation_config;
  int64_t max_context = 0;
  std::string device;                      // "cpu", "ref"
  std::vector<std::string> required_isa;   // union over the kernels used
  std::map<std::string, std::string> build_record;  // options, hash of the inputs, timing-cache hash, version; no paths, no times
  std::vector<LayerLoss> layer_loss;

  // The file that weight bytes point into, if they do.
  std::shared_ptr<const MappedFile> mapping;
  // An error if that file was cut short under the mapping: what was computed with its weights is void.
  Status check_mapping() const;
};

}  // namespace brisk
