#include "fuzz/fuzz.h"
#include "text/json_value.h"

namespace brisk::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"messages":[{"role":"user","content":"Hi \u00e9\ud83d\ude00\n"}],"temperature":0.5,"n":-12,"stream":true,"x":null})",
      R"([1,-2.5e-3,1e400,[[[]]],{"a":{"a":1,"a":2}},"",123456789012345678901234567890])",
  };
}

bool parse(const uint8_t* data, size_t size) {
  auto v = parse_json({reinterpret_cast<const char*>(data), size});
  if (!v.ok()) return false;
  return parse_json(to_text(*v)).ok();  // what is written can be read
}

}  // namespace brisk::fuzz
