// The conversion of decoders inside a build: normalising passes, conversion, and what is said about it.
#pragma once
#include "compiler/compile.h"

namespace brisk {

inline constexpr const char* kConvertDecoder = "convert-decoder";  // for --disable-pass

// Where `main` is a decoder that can be converted, `step` takes its place. Else the model stays as it is, and the reason
// goes to log, notes and record; a conversion whose check failed is such a reason, too, and a warning.
Status convert_to_step(Model& model, const CompileOptions& options, const Backend& backend, std::map<std::string, std::string>& record,
                       std::vector<std::string>& notes);

}  // namespace brisk
