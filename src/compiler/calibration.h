// Calibration inside a build: where its token sequences come from.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/compile.h"

namespace brisk {

using Sequences = std::vector<std::vector<int32_t>>;

// Windows of a UTF-8 text, spread over all of it, with the model's bos in front where it has one. kInvalid: not UTF-8,
// shorter than 8 windows, no tokenizer.
Result<Sequences> sequences_of_text(const Model& model, const std::string& text, int64_t max_tokens);

// What the model itself says at temperature 1: no text is needed, and its distribution is the one that answers will have.
// Seeded: the same model gives the same sequences at any number of threads. kInvalid: logits that are not numbers.
Result<Sequences> sampled_sequences(const Model& model, const Backend& backend, int64_t max_tokens,
                                    const std::function<void(double)>& progress);

// What calibrate_int4 gives for the model's `step` function, and how it was done into `record`; empty where nothing is to
// be calibrated.
Result<std::map<const Constant*, ConstantPtr>> calibrate(const Model& model, const QuantizeOptions& precision,
                                                         const CompileOptions& options, const Backend& backend,
                                                         std::map<std::string, std::string>& record);

}  // namespace brisk
