// Template source to tokens, with jinja2's whitespace rules for trim_blocks and lstrip_blocks both on.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace brisk::jinja {

enum class Tok : uint8_t {
  kText,  // literal template text
  kPrintBegin,
  kPrintEnd,  // {{ }}
  kTagBegin,
  kTagEnd,  // {% %}
  kName,
  kString,
  kInt,
  kFloat,
  kOperator,  // text holds it
  kEnd,
};

struct Token {
  Tok kind = Tok::kEnd;
  int line = 1;
  std::string text;  // decoded for strings
  Int i = 0;
  double f = 0;
};

struct SyntaxError {
  int line;
  std::string message;
};

// Throws SyntaxError. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

}  // namespace brisk::jinja
