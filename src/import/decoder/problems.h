// Everything that a model asks for and brisk does not have, collected so that one error lists all of it.
#pragma once
#include <string>
#include <vector>

#include "brisk/result.h"

namespace brisk {

class Problems {
 public:
  void add(std::string what) {
    if (list_.size() < kMaxListed) list_.push_back(std::move(what));
    ++count_;
  }
  bool empty() const { return count_ == 0; }
  const std::vector<std::string>& list() const { return list_; }

  // kUnsupported: "model.gguf: 2 things are not supported:" and one line each. `where` is a file or folder.
  Error error(const std::string& where) const {
    std::string text = where + ": " + std::to_string(count_) + (count_ == 1 ? " thing is" : " things are") + " not supported:";
    for (const auto& line : list_) text += "\n  " + line;
    if (count_ > list_.size()) text += "\n  ... and " + std::to_string(count_ - list_.size()) + " more";
    return unsupported(std::move(text));
  }

 private:
  static constexpr size_t kMaxListed = 500;  // of a hostile file's millions
  std::vector<std::string> list_;
  size_t count_ = 0;
};

}  // namespace brisk
