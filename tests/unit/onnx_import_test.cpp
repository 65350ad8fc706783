// Small models written byte by byte, and what the importer makes of them.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "import/onnx/import.h"
#include "onnx_bytes.h"

namespace brisk {
namespace {

using namespace test::onnx;

Result<Model> import_bytes(const std::string& model) {
  std::string path = (std::filesystem::temp_directory_path() / ("brisk_onnx_import_" + std::to_string(::getpid()) + ".onnx")).string();
  auto file = AtomicFile::create(path);
  EXPECT_TRUE(file.ok());
  EXPECT_TRUE((*file)->write({reinterpret_cast<const std::byte*>(model.data()), model.size()}).ok());
  EXPECT_TRUE((*file)->commit().ok());
  auto m = import_onnx(path);
  std::filesystem::remove(path);
  return m;
}
Result<Model> import_graph(const std::string& graph, int version = 18, const std::string& more = {}) {
  return import_bytes(number(1, 8) + opset("", version) + more + bytes(7, graph));
}

TEST(OnnxImport, NamesBecomeSymbolsAndOddNamesSymbolsOfTheirOwn) {
  auto m = import_graph(input("x", 1, {"batch", "?", "4"}) + node("Relu", {"x"}, {"y"}) + output("y"));
  ASSERT_TRUE(m.ok()) << m.error().message;
  const Graph& g = m->functions.at("main");
  EXPECT_TRUE(verify(g).ok());
  EXPECT_EQ(to_string(g.value(g.outputs[0]).type), "f32[batch, x_1, 4]");
  EXPECT_EQ(g.value(g.outputs[0]).name, "y");
}

// Shape -> Gather -> Concat -> Reshape, as exporters write "flatten the tail".
TEST(OnnxImport, ShapeArithmeticIsFollowedSymbolically) {
  auto m = import_graph(input("x", 1, {"batch", "seq", "8"}) + int64s("zero", {0}) + int64s("heads", {-1, 2, 4}) + node("Shape", {"x"}, {"s"}) +
                        node("Gather", {"s", "zero"}, {"b"}) + node("Concat", {"b", "heads"}, {"target"}, int_attribute("axis", 0)) +
                        node("Reshape", {"x", "target"}, {"y"}) + output("y"));
  ASSERT_TRUE(m.ok()) << m.error().message;
  const Graph& g = m->functions.at("main");
  EXPECT_EQ(to_string(g.value(g.outputs[0]).type), "f32[batch, seq, 2, 4]");
}

TEST(OnnxImport, NodesOutOfOrderAreSorted) {
  auto m = import_graph(input("x", 1, {"2"}) + node("Exp", {"a"}, {"y"}) + node("Neg", {"x"}, {"a"}) + output("y"));
  ASSERT_TRUE(m.ok()) << m.error().message;
  const Graph& g = m->functions.at("main");
  ASSERT_EQ(g.nodes.size(), 2u);
  EXPECT_EQ(g.nodes[0].op, OpId::kNeg);
}

TEST(OnnxImport, AllUnsupportedNodesAreListedAtOnce) {
  auto m = import_graph(input("x", 1, {"2"}) + node("Frobnicate", {"x"}, {"a"}) + node("Neg", {"a"}, {"b"}) + node("Thing", {"b"}, {"y"}, {}, "org.example") + output("y"), 18, opset("org.example", 3));
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.error().kind, ErrorKind::kUnsupported);
  for (const char* part : {"2 nodes", "node 0 'Frobnicate_node' (Frobnicate, opset 18)", "node 2 'Thing_node' (org.example::Thing, opset 3)"})
    EXPECT_NE(m.error().message.find(part), std::string::npos) << m.error().message;
}

TEST(OnnxImport, UnknownDomainsThatNoNodeUsesAreFine) {
  EXPECT_TRUE(import_graph(input("x", 1, {"2"}) + node("Neg", {"x"}, {"y"}) + output("y"), 18, opset("org.example", 99)).ok());
}

void expect_invalid(const Result<Model>& m, const std::string& part) {
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.error().kind, ErrorKind::kInvalid) << m.error().message;
  EXPECT_NE(m.error().message.find(part), std::string::npos) << m.error().message;
}

TEST(OnnxImport, MalformedGraphsAreErrorsThatNameTheNode) {
  std::string x = input("x", 1, {"2"});
  expect_invalid(import_graph(x + node("Add", {"x", "b"}, {"a"}) + node("Neg", {"a"}, {"b"}) + output("b")), "node 0 'Add_node' (Add)");
  expect_invalid(import_graph(x + node("Neg", {"nothing"}, {"y"}) + output("y")), "input 'nothing' is never defined");
  expect_invalid(import_graph(x + node("Neg", {"x"}, {"y"}) + node("Exp", {"x"}, {"y"}) + output("y")), "give 'y'");
  expect_invalid(import_graph(x + node("Neg", {"x"}, {"x"}) + output("x")), "cycle");
  expect_invalid(import_graph(x + x + node("Neg", {"x"}, {"y"}) + output("y")), "two inputs named 'x'");
  expect_invalid(import_graph(x + node("Neg", {"x"}, {"y"}) + output("z")), "graph output 'z'");
  expect_invalid(import_graph(x + int64s("s", {3}) + node("Reshape", {"x", "s"}, {"y"}) + output("y")), "cannot reshape");
  std::string nothing = node("Exp", {"x"}, {"t"}) + output(""), something = node("Neg", {"x"}, {"e"}) + output("e");
  expect_invalid(import_graph(x + input("c", 9, {}) +
                              node("If", {"c"}, {"y"}, graph_attribute("then_branch", nothing) + graph_attribute("else_branch", something)) + output("y")),
                 "has no value");
  expect_invalid(import_bytes("not a model at all"), "not an ONNX model");
  expect_invalid(import_graph(bytes(5, number(1, 1ull << 62) + number(1, 1ull << 62) + number(2, 1) + bytes(8, "w")) + output("w")), "initialiser 'w'");
}

TEST(OnnxImport, ExternalDataStaysInTheFolder) {
  auto tensor = [](const std::string& location) {
    return bytes(5, number(1, 1) + number(2, 1) + bytes(8, "w") + bytes(13, bytes(1, "location") + bytes(2, location)) + number(14, 1));
  };
  for (const char* bad : {"../../etc/passwd", "/etc/passwd", ""}) expect_invalid(import_graph(tensor(bad) + output("w")), "external data");
}

TEST(OnnxImport, IfBecomesClosedBlocksWithSharedCaptures) {
  std::string yes = node("Add", {"x", "w"}, {"t"}) + output("t"), no = node("Neg", {"x"}, {"e"}) + output("e");
  auto m = import_graph(input("x", 1, {"n"}) + input("w", 1, {"n"}) + input("c", 9, {}) +
                        node("If", {"c"}, {"y"}, graph_attribute("then_branch", yes) + graph_attribute("else_branch", no)) + output("y"));
  ASSERT_TRUE(m.ok()) << m.error().message;
  const Graph& g = m->functions.at("main");
  EXPECT_TRUE(verify(g).ok());
  const Node& n = g.nodes.at(0);
  EXPECT_EQ(n.captures, 2);
  ASSERT_EQ(n.blocks.size(), 2u);
  EXPECT_EQ(n.blocks[0].inputs.size(), 2u);
  EXPECT_EQ(n.blocks[1].inputs.size(), 2u);
  EXPECT_EQ(to_string(g.value(g.outputs[0]).type), "f32[n]");
}

TEST(OnnxImport, IfOnAKnownConditionIsInlined) {
  std::string yes = node("Exp", {"x"}, {"t"}) + output("t"), no = node("Neg", {"x"}, {"e"}) + output("e");
  auto m = import_graph(input("x", 1, {"n", "3"}) + int64s("two", {2}) + node("Shape", {"x"}, {"s"}) + node("Shape", {"s"}, {"rank"}) + node("Equal", {"rank", "two"}, {"c"}) +
                        node("If", {"c"}, {"y"}, graph_attribute("then_branch", yes) + graph_attribute("else_branch", no)) + output("y"));
  ASSERT_TRUE(m.ok()) << m.error().message;
  for (const Node& n : m->functions.at("main").nodes) EXPECT_NE(n.op, OpId::kIf);
}

// body: (i, go, s) -> (go, s ++ x, i); the state grows, so its size becomes a symbol.
TEST(OnnxImport, LoopStatesThatGrowGetASymbol) {
  std::string body = input("i", 7, {}) + input("go", 9, {}) + input("s", 1, {}) + node("Identity", {"go"}, {"go2"}) +
                     node("Concat", {"s", "x"}, {"s2"}, int_attribute("axis", 0)) + node("Identity", {"i"}, {"i2"}) + output("go2") + output("s2") + output("i2");
  auto m = import_graph(input("x", 1, {"2"}) + input("n", 7, {}) + node("Loop", {"n", "", "x"}, {"last", "steps"}, graph_attribute("body", body)) + output("last") + output("steps"));
  ASSERT_TRUE(m.ok()) << m.error().message;
  const Graph& g = m->functions.at("main");
  EXPECT_TRUE(verify(g).ok());
  EXPECT_EQ(g.value(g.outputs[0]).type.rank(), 1);
  EXPECT_FALSE(g.value(g.outputs[0]).type.shape[0].is_constant());
  EXPECT_EQ(g.value(g.outputs[1]).type.dtype, DType::kI64);
}

TEST(OnnxImport, LocalFunctionsAreInlined) {
  // f(a, alpha = caller's) = LeakyRelu(a)
  std::string f = bytes(1, "F") + bytes(4, "a") + bytes(5, "b") + bytes(6, "k") + bytes(7, bytes(1, "a") + bytes(2, "b") + bytes(4, "Concat") + bytes(5, bytes(1, "axis") + bytes(21, "k") + number(20, 2))) + bytes(9, number(2, 18)) + bytes(10, "local");
  auto m = import_graph(input("x", 1, {"2"}) + node("F", {"x"}, {"y"}, int_attribute("k", 0), "local") + output("y"), 18, opset("local", 1) + bytes(25, f));
  ASSERT_TRUE(m.ok()) << m.error().message;
  EXPECT_EQ(to_string(m->functions.at("main").value(m->functions.at("main").outputs[0]).type), "f32[2]");
}

}  // namespace
}  // namespace brisk
