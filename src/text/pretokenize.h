// The pre-tokenizer: cuts a normalized text into the pieces that the model sees one at a time.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brisk/result.h"
#include "text/pretokenize_regex.h"
#include "text/tokenizer_model.h"

namespace brisk {

struct PretokenizedText {
  // Pieces in order; they view `storage` if a step rewrote the text, else the text given to run().
  std::vector<std::string_view> pieces;
  std::string storage;
};

// Immutable after build().
class Pretokenizer {
 public:
  // `byte_level`: the model wants raw bytes. `mapped`: the normalizer has already turned bytes to GPT-2's characters.
  static Result<Pretokenizer> build(std::span<const PretokenizeStep> steps, bool byte_level, bool mapped);

  // `at_start`: text begins where the whole text begins (PrefixScheme::kFirst). Views in `out` live as long as `text`
  // and `out`.
  Status run(std::string_view text, bool at_start, uint64_t& budget, PretokenizedText& out) const;

 private:
  struct Step {
    PretokenizeStep what;
    std::unique_ptr<const SplitRegex> regex;
    bool map_bytes = false;
  };
  struct Work;
  Status apply(const Step& step, Work& work, bool at_start, uint64_t& budget) const;

  std::vector<Step> steps_;
  bool unmap_ = false;
};

// GPT-2's printable character of a byte, and back: -1 for a character that stands for none.
char32_t byte_to_char(uint8_t byte);
int char_to_byte(char32_t c);
// The bytes that a byte-level token stands for; false (and `out` untouched) if some character stands for none.
bool chars_to_bytes(std::string_view token, std::string& out);

}  // namespace brisk
