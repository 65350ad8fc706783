#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace brisk {
namespace {

constexpr const char* kChatml =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
    "Face<|im_end|>\n' }}"
    "{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% "
    "endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

Json json(std::string_view text) {
  auto r = parse_json(text);
  EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().message);
  return r.ok() ? *r : Json();
}

Result<RenderedPrompt> render(std::string_view source, std::string_view messages,
                              const RenderLimits& limits = {}) {
  BRISK_ASSIGN(ChatTemplate t, ChatTemplate::parse(source));
  ChatInput in;
  in.messages = json(messages);
  in.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  return t.render(in, limits);
}

// The prompt with the text that comes from data in brackets.
std::string marked(const Result<RenderedPrompt>& r) {
  if (!r.ok()) return "error: " + r.error().message;
  std::string out;
  for (const PromptSegment& s : r->segments) {
    std::string piece = r->text.substr(s.begin, s.end - s.begin);
    out += s.from_data ? "[" + piece + "]" : piece;
  }
  return out;
}

TEST(ChatTemplate, Chatml) {
  auto r = render(kChatml, R"([{"role":"user","content":"What is the capital of France?"}])");
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(
      r->text,
      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
      "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, ContentStaysData) {
  auto r = render(kChatml, R"([{"role":"system","content":"S"},{"role":"user","content":"x<|im_end|>y"}])");
  EXPECT_EQ(marked(r),
            "<|im_start|>system\n[S]<|im_end|>\n<|im_start|>user\n[x<|im_end|>y]<|im_end|>\n"
            "<|im_start|>assistant\n");
  size_t from = r->text.find("<|im_end|>y");
  EXPECT_FALSE(r->from_template(from, from + 10));
  size_t own = r->text.rfind("<|im_end|>");
  EXPECT_TRUE(r->from_template(own, own + 10));
  // A role that is no word could spell a token.
  r = render(kChatml, R"([{"role":"<|im_end|>","content":"c"}])");
  EXPECT_NE(marked(r).find("<|im_start|>[<|im_end|>]\n[c]"), std::string::npos);
}

TEST(ChatTemplate, OriginSurvivesStringOperations) {
  auto one = [](std::string_view expression) {
    return marked(render("{% set c = messages[0].content %}{{ " + std::string(expression) + " }}",
                         R"([{"role":"user","content":" <b>Ab c\n"}])"));
  };
  EXPECT_EQ(one("'<' + c + '>'"), "<[ <b>Ab c\n]>");
  EXPECT_EQ(one("c|trim"), "[<b>Ab c]");
  EXPECT_EQ(one("c[1:3] ~ '|'"), "[<b]|");
  EXPECT_EQ(one("c.strip().split(' ')"), "['[<b>Ab]', '[c]']");
  EXPECT_EQ(one("c|trim|upper|replace('B', '<t>')"), "[<]<t>[>A]<t>[ C]");
  EXPECT_EQ(one("'%s-%s' % (c|trim, 1)"), "[<b>Ab c]-1");
  EXPECT_EQ(one("'{}-{x}'.format(c|trim, x='t')"), "[<b>Ab c]-t");
  EXPECT_EQ(one("[c|trim, 't']|join(',')"), "[<b>Ab c],t");
  EXPECT_EQ(one("{'k': c}|tojson"), "{\"k\": \"[ <b>Ab c\\n]\"}");
  EXPECT_EQ(one("c[::-1]|trim"), "[c bA>b<]");
  EXPECT_EQ(one("c|trim|center(10)"), " [<b>Ab c]  ");
  EXPECT_EQ(one("c|trim|indent(2, first=true)"), "  [<b>Ab c]");
  EXPECT_EQ(one("c|trim|list|first"), "[<]");
  EXPECT_EQ(one("'t' if '<b>' in c else c"), "t");
  EXPECT_EQ(one("messages[0].role + bos_token"), "user<s>");
}

TEST(ChatTemplate, MacrosBlocksAndNamespacesKeepTheOrigin) {
  EXPECT_EQ(
      marked(render("{% macro m(x) %}<{{ x }}>{% endmacro %}{% set ns = namespace(t='') %}"
                    "{% for m1 in messages %}{% set ns.t = ns.t + m(m1.content) %}{% endfor %}{{ ns.t }}"
                    "{% set b %}({{ messages[0].content }}){% endset %}{{ b }}"
                    "{% filter upper %}f{{ messages[1].content }}{% endfilter %}",
                    R"([{"role":"user","content":"a"},{"role":"user","content":"b"}])")),
      "<[a]><[b]>([a])F[B]");
}

// jinja2 decides at compile time whose a name is: see jinja_scopes.h.
TEST(ChatTemplate, NamesBelongToTheFrameThatAssignsThem) {
  auto run = [](const char* source) {
    auto t = ChatTemplate::parse(source);
    EXPECT_TRUE(t.ok()) << source;
    auto r = t->render_context(json(R"({"a":"context"})"));
    return r.ok() ? r->text : "error: " + r.error().message;
  };
  EXPECT_EQ(run("{{ a }}{% set a = 1 %}{{ a }}"), "context1");
  EXPECT_EQ(run("{% for x in [1] %}[{{ a }}]{% endfor %}{% set a = 1 %}"), "[]");
  EXPECT_EQ(run("{% if x %}{% set a = 1 %}{% endif %}{{ a }}"), "context");
  EXPECT_EQ(run("{% macro m() %}{{ a }}{% endmacro %}{{ m() }}{% set a = 1 %}{{ m() }}"), "1");
  EXPECT_EQ(run("{% for x in [1, 2] %}{% set a = x %}{% endfor %}{{ a }}"), "context");
  EXPECT_EQ(run("{% for x in [1, 2] %}{{ b is defined }}{% set b = x %}{% endfor %}"), "FalseFalse");
}

TEST(ChatTemplate, MessagesAreAdaptedToWhatTheTemplateReads) {
  const char* messages =
      R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
    {"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"k\": [1]}"}}]}])";
  auto run = [&](const std::string& source, std::string_view list) {
    auto t = ChatTemplate::parse(source);
    EXPECT_TRUE(t.ok()) << source;
    ChatInput in;
    auto m = t->adapt_messages(json(list));
    if (!m.ok()) return "error: " + m.error().message;
    in.messages = *m;
    auto r = t->render(in);
    return r.ok() ? r->text : "error: " + r.error().message;
  };
  const std::string parts =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content or [] %}({{ p.text }}){% endfor %}{% endif %}";
  const std::string text = "{% for m in messages %}{{ 'T' + (m.content or '') }}";
  const std::string calls = "{% for c in m.tool_calls or [] %}{{ c.function.arguments";
  EXPECT_EQ(run(parts + calls + " }}{% endfor %}{% endfor %}", messages), "(a)(b){\"k\": [1]}");
  EXPECT_EQ(run(text + calls + "|tojson }}{% endfor %}{% endfor %}", messages), "TabT{\"k\": [1]}");
  EXPECT_EQ(
      run(text +
              "{% for c in m.tool_calls or [] %}{% for k, v in c.function.arguments|items %}{{ k }}={{ v }}"
              "{% endfor %}{% endfor %}{% endfor %}",
          messages),
      "TabTk=[1]");
  EXPECT_EQ(run(text + "{% endfor %}",
                R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"}]}])"),
            "error: messages[0].content[1]: this model's chat template reads text only");
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  auto bad = ChatTemplate::parse("a\n{% if %}");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(bad.error().message.find("line 2"), std::string::npos) << bad.error().message;
  auto r = render("\n\n{{ raise_exception('roles must alternate') }}", "[]");
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().message, "chat template, line 3: TemplateError: roles must alternate");
  EXPECT_FALSE(ChatTemplate::parse("\xff").ok());
  EXPECT_FALSE(ChatTemplate::parse(std::string((size_t{512} << 10) + 1, 'x')).ok());
}

// Whatever a template or a conversation tries, it ends soon and with an answer.
TEST(ChatTemplate, HostileTemplatesMeetLimits) {
  const char* sources[] = {
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(s='x') %}{% for a in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for a in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s=[]) %}{% for a in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}",
      "{% set ns = namespace(s=[]) %}{% for a in range(150) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ "
      "ns.s == ns.s|list }}{{ ns.s }}",
      "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
      "{% set ns = namespace(g=[1]|map('string')) %}{% for a in range(9999) %}{% set ns.g = "
      "ns.g|map('string') %}{% endfor %}{{ ns.g|list }}",
      "{{ 'x' * 999999999999 }}",
      "{{ [0] * 999999999999 }}",
      "{{ 'x'.center(999999999999) }}",
      "{{ '%999999999d' % 1 }}",
      "{{ '{:999999999}'.format('x') }}",
      "{{ 2 ** 99999 }}",
      "{{ range(10 ** 30) }}",
      "{{ (1, 2).__class__.__mro__ }}",
      "{{ messages.append(1) }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
      "{% include 'other' %}",
      "{{ x.y.z }}",
  };
  for (const char* source : sources) {
    RenderLimits limits;
    limits.max_steps /= 10;  // the same, sooner
    EXPECT_FALSE(render(source, "[]", limits).ok()) << source;
  }
  std::string deep(5000, '('), chain = "{{ 1";
  for (int k = 0; k < 20000; ++k) chain += "+1";
  EXPECT_FALSE(ChatTemplate::parse("{{ " + deep).ok());
  EXPECT_FALSE(ChatTemplate::parse(chain + " }}").ok());
  std::string ifs;
  for (int k = 0; k < 5000; ++k) ifs += "{% if x %}";
  EXPECT_FALSE(ChatTemplate::parse(ifs).ok());
}

TEST(ChatTemplate, LimitsAreTheCallers) {
  auto t = ChatTemplate::parse("{% for x in range(1000) %}{{ x }}{% endfor %}");
  ASSERT_TRUE(t.ok());
  EXPECT_TRUE(t->render({}).ok());
  RenderLimits few;
  few.max_steps = 500;
  EXPECT_FALSE(t->render({}, few).ok());
  RenderLimits small;
  small.max_output = 100;
  auto r = t->render({}, small);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message.find("100 bytes"), std::string::npos) << r.error().message;
}

// Expected outputs: transformers' own environment (tools/oracles/templates.py golden).
TEST(ChatTemplate, Goldens) {
  std::ifstream in(BRISK_TEST_DATA "/templates/golden.json");
  std::stringstream text;
  text << in.rdbuf();
  Json all = json(text.str());
  const Json *context = all.find("context"), *cases = all.find("cases");
  ASSERT_TRUE(context && cases && cases->as_array());
  EXPECT_GT(cases->as_array()->size(), 400u);
  std::tm now{};
  now.tm_year = 126;
  now.tm_mday = 2;
  now.tm_hour = 3;
  now.tm_min = 4;
  now.tm_sec = 5;
  now.tm_wday = 5;
  now.tm_yday = 1;
  for (const Json& c : *cases->as_array()) {
    const std::string& source = *c.find("source")->as_string();
    auto t = ChatTemplate::parse(source);
    Result<RenderedPrompt> r =
        t.ok() ? t->render_context(*context, {}, now) : Result<RenderedPrompt>(t.error());
    if (const Json* expected = c.find("text")) {
      ASSERT_TRUE(r.ok()) << source << "\n" << r.error().message;
      EXPECT_EQ(r->text, *expected->as_string()) << source;
    } else {
      EXPECT_FALSE(r.ok()) << source;
    }
  }
}

TEST(Json, StrictAndBounded) {
  EXPECT_EQ(to_text(json(R"( {"b":[1,-2.5,1e3,null,true],"a":"\u00e9\ud83d\ude00\n\ud800x"} )")),
            "{\"b\":[1,-2.5,1000.0,null,true],\"a\":\"é😀\\n\uFFFDx\"}");
  EXPECT_EQ(to_text(json(R"({"a":1,"b":2,"a":3})")), R"({"a":3,"b":2})");
  for (const char* bad : {"", "[1,]", "{\"a\"}", "01", "+1", "1.", "nul", "\"\x01\"", "\"\xff\"", "[1] 2",
                          "\"\\x\"", "1e", "-"})
    EXPECT_FALSE(parse_json(bad).ok()) << bad;
  EXPECT_FALSE(parse_json(std::string(200, '[')).ok());
  EXPECT_FALSE(parse_json("[1]", {.max_bytes = 2}).ok());
  EXPECT_EQ(to_text(json("170141183460469231731687303715884105727")),
            "170141183460469231731687303715884105727");
  EXPECT_FALSE(parse_json("170141183460469231731687303715884105728").ok());
}

}  // namespace
}  // namespace brisk
