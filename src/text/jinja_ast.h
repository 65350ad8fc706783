// The parsed template: immutable, shared between threads, rendered any number of times.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja_value.h"

namespace brisk::jinja {

struct FilterEntry;
struct TestEntry;

using NameId = uint32_t;  // index into Ast::names

enum class Op : uint8_t {
  kConst,
  kName,
  kTuple,
  kList,
  kDict,     // kDict: key, value, key, value ...
  kGetattr,  // args[0].text
  kGetitem,  // args[0][args[1]]
  kSlice,    // args[0][args[1]:args[2]:args[3]], any of 1..3 null
  kCall,
  kFilter,
  kTest,  // args[0] is the callee / the value; null in a filter block
  kNot,
  kNeg,
  kPos,
  kAnd,
  kOr,
  kCond,     // kCond: value, condition, else (may be null)
  kCompare,  // args[0] ops[0] args[1] ops[1] args[2] ...
  kConcat,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kNsRef,  // assignment target name.text
};
enum class Cmp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
struct Keyword {
  std::string name;
  ExprPtr value;
};

struct Expr {
  Op op;
  int line = 0;
  NameId name = 0;   // kName, kNsRef
  std::string text;  // attribute, filter or test name
  Val value;         // kConst
  std::vector<ExprPtr> args;
  std::vector<Keyword> keywords;        // kCall, kFilter, kTest
  ExprPtr star, star_star;              // *args, **kwargs of a call
  std::vector<Cmp> ops;                 // kCompare
  const FilterEntry* filter = nullptr;  // null: unknown, fails when it is reached
  const TestEntry* test = nullptr;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

// Variables that a frame starts with, undefined (jinja_scopes.h).
using OwnNames = std::vector<std::pair<NameId, Val>>;

struct MacroDef {
  std::string name;
  std::vector<NameId> params;
  std::vector<std::string> param_names;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  OwnNames own;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

enum class StmtKind : uint8_t {
  kText,
  kPrint,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,
  kBlock,
  kBreak,
  kContinue,
  kGeneration,
  kNeedsLoader,  // include, import, extends: there is nothing to load from
};

struct Stmt {
  StmtKind kind;
  int line = 0;
  Val text;                              // kText: the literal as a string value
  ExprPtr target;                        // kFor, kSet, kSetBlock, (kMacro: the name to bind)
  ExprPtr expr;                          // print, condition, iterable, assigned value, call, filter chain
  ExprPtr test;                          // kFor: its `if`
  std::vector<ExprPtr> targets, values;  // kWith
  Body body, other;                      // kIf: then / else (elif is an if inside else); kFor: else
  OwnNames own, other_own;               // of the frames of body and other
  bool recursive = false;                // kFor
  bool scoped = false;                   // kBlock
  std::string name;                      // kBlock, kNeedsLoader
  std::unique_ptr<MacroDef> macro;       // kMacro, kCallBlock, kGeneration
};

struct Ast {
  Body body;
  OwnNames own;
  std::vector<std::string> names;  // by NameId
  std::map<std::string, NameId, std::less<>> name_ids;
  std::map<std::string, const Stmt*, std::less<>> blocks;

  NameId intern(std::string_view name) {
    auto it = name_ids.find(name);
    if (it != name_ids.end()) return it->second;
    auto id = static_cast<NameId>(names.size());
    names.emplace_back(name);
    name_ids.emplace(names.back(), id);
    return id;
  }
};

}  // namespace brisk::jinja
