// Template source to Ast. Throws SyntaxError (jinja_lexer.h); nesting and size are bounded.
#pragma once
#include <string_view>

#include "text/jinja_ast.h"

namespace brisk::jinja {

constexpr size_t kMaxSource = size_t{512} << 10;  // bytes of a template; the largest known have 30 KB
constexpr int kMaxNesting = 100;                  // of expressions and of statements
constexpr int kMaxChain = 1000;  // operators, filters, subscripts of nested expressions together

Ast parse(std::string_view source);

}  // namespace brisk::jinja
