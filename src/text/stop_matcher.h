// Stop strings over streamed text (Aho-Corasick). Text that could still become a stop string is held back; all other
// text passes at once. The answer does not depend on how the text is cut into pieces: the stream ends with the first
// byte that completes a stop string, and of those completed there the longest counts.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "brisk/result.h"

namespace brisk {

class StopMatcher {
 public:
  static constexpr size_t kMaxBytes = 65536;  // of all stop strings together

  StopMatcher() = default;  // no stop strings: everything passes
  // Fails (kInvalid) for an empty stop string and for more than kMaxBytes.
  // include_stop: the stop string itself is given out too.
  static Result<StopMatcher> create(const std::vector<std::string>& stops, bool include_stop = false);

  // Text to give out. Once stopped() nothing comes any more.
  std::string push(std::string_view text);
  // The end of the stream: what was held back and became no stop string.
  std::string finish();

  bool stopped() const { return matched_ >= 0; }
  int matched() const { return matched_; }  // index of the stop string, -1: none
  size_t held() const { return held_.size(); }
  void reset();  // for another stream

 private:
  struct Node {
    std::vector<std::pair<unsigned char, uint32_t>> next;
    uint32_t fail = 0;
    uint32_t depth = 0;
    int32_t stop = -1;  // the longest stop string that ends here
    uint32_t stop_length = 0;
  };
  uint32_t child(uint32_t node, unsigned char c) const;  // 0: none
  uint32_t step(uint32_t node, unsigned char c) const;
  void link();

  std::vector<Node> nodes_{1};
  bool include_stop_ = false;
  uint32_t state_ = 0;
  std::string held_;  // ends the text so far; as long as the state is deep
  int matched_ = -1;
};

}  // namespace brisk
