// What each axis of a value stands for, told by its size in the symbols of recognise.h, and where it goes when batch and
// tokens collapse into one ragged axis.
#pragma once
#include "convert/recognise.h"

namespace brisk::convert {

enum class Role : uint8_t {
  kBatch,
  kToken,  // one place for each token of a sequence
  kRows,   // batch and tokens (and, with `multiple`, parts of each token) as one axis
  kKey,    // past and new tokens: only attention may have it
  kOther,  // inside one token: features, heads, experts
};

struct Axes {
  std::vector<Role> role;
  int token = -1;        // the axis that is kToken or kRows; -1: none
  int64_t multiple = 1;  // places on that axis for each token, consecutive ones

  // Ragged layout: [T * multiple, the other axes in their order].
  std::vector<int64_t> others;  // sizes of kOther axes; what has none is refused by axes_of
  int ragged(int axis) const;   // where a kOther or token axis is in the ragged layout; -1 for batch
};

// kUnsupported: two token axes, a key axis, a size that is neither of the symbols nor a number.
Result<Axes> axes_of(const Type& t, const DecoderIo& io);

// Does a reshape leave each token's elements with that token? Told by the products of sizes before and behind the token axis.
bool keeps_tokens(const Type& from, const Axes& a, const Type& to, const Axes& b, const DecoderIo& io);

}  // namespace brisk::convert
