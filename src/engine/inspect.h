// What is inside an engine, for people and programs: as text, as one JSON object, as one HTML page without outside assets.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/baseline.h"
#include "engine/plan.h"

namespace brisk {

// Bytes of temporaries: as placed, the most that is alive at one step, and all of them together.
struct InspectMemory {
  int64_t placed = 0, live = 0, sum = 0;
  int64_t in_place = 0;  // results on an operand's bytes
};

// What the content itself does not hold. All optional.
struct InspectExtras {
  std::string file;            // name to show
  int64_t file_bytes = 0;
  std::string content_hash;
  std::vector<Baseline> baselines;
  // Temporaries when every symbol of the function has these values; nullopt where that cannot be said.
  std::function<std::optional<InspectMemory>(const std::string& function, const std::map<std::string, int64_t>& symbols)> memory;
  // Milliseconds of a step of a function, where it was timed; steps of blocks are not asked for.
  std::function<std::optional<double>(const std::string& function, size_t step)> step_ms;
};

struct InspectReport {
  struct Row {  // one step
    std::string op, name, kernel;    // kernel: "id v1", or who runs it otherwise
    std::string in, out;             // types
    std::string precision;           // of its weights: "f32, i8/g32/f16"; "" without weights
    int64_t weight_bytes = 0;
    int depth = 0;                   // of enclosing blocks
    std::optional<double> ms;
  };
  struct Corner { std::string name; std::map<std::string, int64_t> symbols; std::optional<InspectMemory> memory; };
  struct Function {
    std::string name;
    std::vector<PlanSymbol> symbols;
    std::vector<std::pair<std::string, std::string>> inputs, outputs;  // name, type
    std::vector<std::pair<std::string, std::string>> states;           // name, geometry
    int64_t state_bytes_per_token = 0, state_bytes_per_sequence = 0;
    bool shapes_proven = false;
    std::vector<Corner> corners;
    std::vector<Row> rows;
  };
  struct WeightGroup { std::string encoding, packing; int64_t tensors = 0, elements = 0, bytes = 0; };

  std::string file, content_hash;
  int64_t file_bytes = 0, max_context = 0, weight_bytes = 0, tokenizer_bytes = 0, chat_template_bytes = 0;
  std::string device;
  std::vector<std::string> required_isa;
  std::map<std::string, std::string> metadata, build_record;
  std::vector<Function> functions;
  std::vector<WeightGroup> weights;  // most bytes first
  std::vector<LayerLoss> layer_loss;
  std::vector<Baseline> baselines;
};

InspectReport inspect(const EngineContent& content, const InspectExtras& extras = {});

std::string inspect_text(const InspectReport& report);  // steps that differ only in the numbers of their names as one line
std::string inspect_json(const InspectReport& report);  // every step
std::string inspect_html(const InspectReport& report);  // every step

}  // namespace brisk
