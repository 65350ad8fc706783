// A template of a stranger's model, parsed and rendered with a conversation.
#include "fuzz/fuzz.h"
#include "text/chat_template.h"

namespace brisk::fuzz {

std::vector<std::string> seeds() {
  return {
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nHi<|im_end|>\\n' }}"
      "{% endif %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
      "{%- macro f(x, n=2) -%}{{ x * n }}{%- endmacro -%}{% set ns = namespace(i=0) %}{% for k, v in {'a': [1, 2.5e3]}.items() %}"
      "{% set ns.i = ns.i + loop.index %}{{ f(k) ~ v|tojson(indent=2) }}{% else %}none{% endfor %}{{ ns.i // 2 ** 3 % 5 }}",
      "{{ messages[-1].content|trim|upper|replace('a', 'b')|default('x')|length }}{{ messages|selectattr('role', 'equalto', 'user')|list }}"
      "{{ 'a,b'.split(',')[::-1]|join('-') }}{{ range(3)|map('string')|list }}{{ '%05.2f|%s' % (1.5, 'x') }}",
      "{% if tools is defined and tools is not none %}{% for t in tools %}{{ t|tojson }}{% endfor %}{% endif %}"
      "{% filter indent(2) %}x\ny{% endfilter %}{# gone #}{% raw %}{{ }}{% endraw %}{{ raise_exception('no') if false }}",
      "{%- set ns = namespace(n=0, s='') -%}{% for m in messages if m.role != 'x' recursive %}{% if loop.last %}{% break %}"
      "{% endif %}{% set ns.s = ns.s ~ loop.index ~ m.content[1:-1:2] %}{% else %}-{% endfor %}{{ ns.s }}",
      "{% macro f(a, b=[1, 2]) %}{{ varargs }}{{ kwargs }}{{ caller(1) }}{% endmacro %}{% call(x) f(1, 2, 3, k=4) %}{{ x }}{% endcall %}",
      "{% set x %}a{% endset %}{% with y = x|length %}{{ y ** 2 // 3 - -1 is odd and not x in 'abc' or none }}{% endwith %}"
      "{% generation %}{{ '{:>8}{x!r}'.format(1, x='y') }}{% endgeneration %}",
  };
}

bool parse(const uint8_t* data, size_t size) {
  auto chat = ChatTemplate::parse({reinterpret_cast<const char*>(data), size});
  if (!chat.ok()) return false;
  ChatInput input;
  input.messages = Json(Json::Array{Json(Json::Object{{"role", "system"}, {"content", " a <b> "}}),
                                    Json(Json::Object{{"role", "user"}, {"content", "\u00e4 {{ x }}"}})});
  input.tools = Json(Json::Array{Json(Json::Object{{"name", "f"}, {"n", 1.5}})});
  input.special_tokens = {{"bos_token", "<s>"}};
  (void)chat->render(input, {.max_output = 1 << 20, .max_memory = 16 << 20, .max_steps = 100'000});
  return true;
}

}  // namespace brisk::fuzz
