// What masks and position tables say, in closed form.
#pragma once
#include "convert/geometry.h"

namespace brisk::convert {

// Which keys a query sees: position p sees keys (p - window, p], with slope * (key - p) added to the score of each.
struct Visibility {
  int64_t window = 0;         // 0: all up to its own
  std::vector<float> slopes;  // of each head (ALiBi: Press et al., Train Short, Test Long, 2021); empty: none
};

// Of an Attention node: its mask operand and attributes together, evaluated for every query and key at sizes round each
// number that occurs in the mask's own nodes. kUnsupported: a query that sees later keys, or not what is described above;
// the message names the place. `limit`: lowered to the positions that were within reach of examination.
Result<Visibility> visibility(Geometry& geometry, const Graph& g, const Node& attention, int64_t& limit);

// c, if integers v [.., batch, tokens] are past + token + c at all sizes.
std::optional<int64_t> position_offset(Geometry& geometry, const Graph& g, ValueId v);

// Tables of a RotaryEmbedding node as angles: row of position p is magnitude * (cos, sin)((p + offset) * frequency[i]).
struct Rotation {
  std::vector<float> frequencies;  // [dim / 2]
  float magnitude = 1;
  int64_t offset = 0;
};
Result<Rotation> rotation(Geometry& geometry, const Graph& g, const Node& rotary, int64_t& limit);

}  // namespace brisk::convert
