// A tokenizer's regular expression with a text to split: pattern, a zero byte, text.
#include <algorithm>

#include "fuzz/fuzz.h"
#include "text/pretokenize.h"

namespace brisk::fuzz {

std::vector<std::string> seeds() {
  const char* const patterns[] = {
      R"('s|'t|'re| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
      R"((?i:'s|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}]+[\r\n]*|\s*[\r\n]+)",
      R"([a-z\u4e00-\u9fff]{2,5}+|(?:ab)?c*?$|^\d\b)",
      R"((?=x)y|(a|b)\1)",
  };
  std::vector<std::string> seeds;
  for (const char* pattern : patterns)
    seeds.push_back(pattern + std::string(1, '\0') + "it's 12345 low  \u4f60\u597d\r\n ab aa y");
  return seeds;
}

bool parse(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), size);
  const PretokenizeStep steps[] = {{.op = PretokenizeOp::kSplit, .pattern = {std::string(input.substr(0, end)), true}}};
  auto splitter = Pretokenizer::build(steps, false, false);
  if (!splitter.ok()) return false;
  PretokenizedText out;
  uint64_t budget = 1 << 20;
  (void)splitter->run(input.substr(std::min(end + 1, size)), true, budget, out);
  return true;
}

}  // namespace brisk::fuzz
