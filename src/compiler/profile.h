// Shape profiles: least, usual and largest size of each input, as `brisk build --profile` takes them; and results that
// a build adds to a graph.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace brisk {

struct Profile {
  struct Range { std::vector<int64_t> min, opt, max; };  // of one rank
  std::map<std::string, Range> inputs;
};

// "input_ids:1x1,1x128,32x512;attention_mask:1x1,1x128,32x512": min, opt and max; one shape alone stands for all three.
// Sizes are 0 or more and rise from min to max.
Result<Profile> parse_profile(const std::string& text);

// Narrows the graph to a profile: symbols get their ranges, those of one size become numbers throughout the graph. Inputs
// that the profile does not name stay as they are. kInvalid: no such input, another rank, a size that the model fixes or
// that two inputs see differently.
Status apply_profile(Graph& graph, const Profile& profile);

// Adds the value of that name, or the results of the node of that name, to the graph's results; already marked ones stay.
// kInvalid with the names that come near where there is none.
Status mark_output(Graph& graph, const std::string& name);

}  // namespace brisk
