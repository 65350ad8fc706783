// Model in, engine file out.
//
//   brisk::Builder builder({.precision = "int8"});
//   auto report = builder.build("smollm2.gguf", "smollm2.engine");
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "brisk/result.h"

namespace brisk {

struct BuildConfig {
  std::string device = "cpu";                // "cpu", or "ref" (slow reference kernels)
  std::string precision;                     // fp32 fp16 bf16 int8 int8w int4w; empty: what the file has if quantised, else bf16
  std::string label;                         // version label stored in the engine
  std::string tokenizer_dir;                 // folder with tokenizer files, for models that bring none
  std::map<std::string, std::string> keep;   // weight name (or prefix ending in '*') -> precision
  std::vector<std::string> disabled_passes;
  std::string dump_after;                    // pass name or "all": graphs go to `dump`
  // What the 4-bit weights of int4w are fitted to: a UTF-8 text file of at least 8 windows of 512 tokens, or "none": they
  // are rounded. Empty: a generative model fits them to text that it samples itself. Weights that the file has in 4 bits stay.
  std::string calibration;
  bool generative = true;                    // decoders of ONNX files become generative engines; false: plain functions
  // Shapes the engine is made for, "input_ids:1x1,1x128,32x512;attention_mask:..." (min, opt, max, or one shape for all three);
  // several: one plan each. None: all that the model takes. A model that would become a generative engine stays a function.
  std::vector<std::string> profiles;
  int64_t workspace_bytes = 0;               // most scratch (temporaries and kernels' own) a call may use; 0: no limit
  std::vector<std::string> mark_outputs;     // nodes or values whose results become results of the model, too
  int threads = 0;                           // 0: all the process may use
  std::function<void(const std::string& stage, double fraction)> progress;  // fraction in [0, 1], on the calling thread
  std::function<void(const std::string& pass, const std::string& graph)> dump;
};

struct BuildReport {
  struct Pass { std::string name; int rewrites; int64_t nodes; double ms; };
  struct Weight { std::string name, encoding; double sqnr_db; int64_t elements; };
  std::string precision;
  std::string calibration;  // how int4w weights were fitted; empty: rounded, or nothing to fit
  std::vector<Pass> passes;
  std::vector<Weight> weights;
  std::vector<std::string> notes;
  uint64_t file_bytes = 0;
  double seconds = 0;
};

// Not thread safe; several builders may run at once. Errors: kInvalid (the model is damaged), kUnsupported (all of what
// brisk lacks, one line each), kEnvironment. On failure an existing engine file is left as it was.
class Builder {
 public:
  explicit Builder(BuildConfig config) : config_(std::move(config)) {}
  // `model`: a .gguf or .onnx file or a Hugging Face folder.
  Result<BuildReport> build(const std::string& model, const std::string& engine_path);

 private:
  BuildConfig config_;
};

}  // namespace brisk
