// Which variables of a frame start out undefined. jinja2 decides at compile time: a name that a frame assigns before
// it reads it, on every way and with no outer frame that knows it, is the frame's own from its beginning. Until the
// assignment runs it is undefined, even for inner frames and macros that would otherwise find it in the context.
#pragma once
#include "text/jinja_ast.h"

namespace brisk::jinja {

void find_own_names(Ast& ast);  // fills `own` of the Ast, its statements and macros

}  // namespace brisk::jinja
