// Which added tokens may be taken from a text that is partly a stranger's (Tokenizer::encode_guarded).
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer_model.h"

namespace brisk {

// A token that shapes a prompt: a special one, or an added one that looks like markup ("<think>", "[INST]").
bool shapes_prompt(const AddedToken& token);

class DataGuard {
 public:
  // Ranges are in order and do not overlap; both views outlive the guard.
  explicit DataGuard(std::span<const ByteRange> data) : data_(data) {}
  bool touches_data(size_t begin, size_t end) const;

 private:
  std::span<const ByteRange> data_;
};

// The same for tokens that are looked for in normalized text, where the offsets of the raw text are lost: the k-th
// occurrence of a token there stands for the k-th in the raw text. Where the numbers of both differ, none is taken.
class NormalizedGuard {
 public:
  // raw: the part of the text that became `normal`; it begins at byte `offset` of the text that `guard` knows.
  NormalizedGuard(const DataGuard& guard, std::string_view raw, size_t offset, std::string_view normal)
      : guard_(guard), raw_(raw), offset_(offset), normal_(normal) {}
  // `begin`: where the token, spelled `pattern` there, was found in the normalized text.
  bool allows(const AddedToken& token, std::string_view pattern, size_t begin);

 private:
  const DataGuard& guard_;
  std::string_view raw_;
  size_t offset_;
  std::string_view normal_;
  std::map<int32_t, std::map<size_t, bool>> known_;  // by token and place
};

}  // namespace brisk
