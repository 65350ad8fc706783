"""The committed goldens' templates: small ones that together touch every feature of the engine."""

CASES = r"""
{{ messages[0]['role'] }}|{{ messages[-1].content is none }}|{{ messages|length }}
{%- for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }};{% endfor %}
{% for m in messages %}{{ loop.previtem.role if not loop.first }}>{{ loop.nextitem.role if not loop.last else '.' }} {% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}:{{ x }} {% else %}none{% endfor %}{% for x in el %}x{% else %}empty{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in d|dictsort %}{{ k }}{% endfor %}{% for k in d %}{{ k }}{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for x in [[1, [2]], 3] recursive %}[{{ loop.depth }}{{ loop(x) if x is iterable else x }}]{% endfor %}
{% set x = 0 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% set ns = namespace(n=0, seen=[]) %}{% for i in l %}{% set ns.n = ns.n + i %}{% set ns.seen = ns.seen + [i] %}{% endfor %}{{ ns.n }} {{ ns.seen }} {{ ns.nope is defined }}
{% if no %}a{% elif nil %}b{% elif 0 %}c{% elif l %}d{% else %}e{% endif %}
{% set a, b = 1, [2] %}{{ a }}{{ b }}{% set (c, d2) = 'xy' %}{{ c ~ d2 }}
{% set block %}  in {{ s }}  {% endset %}[{{ block }}]{% set up | upper | trim %} q {% endset %}[{{ up }}]
{% macro m(a, b='d', c=a) %}{{ a }}/{{ b }}/{{ c }}{% endmacro %}{{ m(1) }} {{ m('x', c=3) }} {{ m(b=2, a=1) }} {{ m() }}
{% macro v(x) %}{{ x }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, 3, k='w') }}{{ v.name }}{{ v.arguments }}
{% macro w(t) %}<{{ t }}>{{ caller(t|upper) }}</{{ t }}>{% endmacro %}{% call(u) w('p') %}in {{ u }}{% endcall %}
{% macro rec(n) %}{{ n }}{% if n > 0 %}{{ rec(n - 1) }}{% endif %}{% endmacro %}{{ rec(5) }}
{% macro late() %}{{ value }}{% endmacro %}{% set value = 'now' %}{{ late() }}
{% with a = 1, b = i %}{{ a + b }}{% set z2 = 1 %}{% endwith %}{{ z2 is defined }}{{ a is defined }}
{% filter upper %}shout {{ s }}{% endfilter %}{% filter replace('l', 'L')|trim %} lull {% endfilter %}
{% raw %}{{ not }} {% this %}{% endraw %}{# comment {{ x }} #}|{{ '{{' }}{{ "%}" }}
{% generation %}{{ s }}{% set inner = 1 %}{% endgeneration %}{{ inner is defined }}
{% block body %}[{{ s }}]{% endblock %}{{ self.body() }}
{{ 1 + 2 * 3 ** 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 1e3 }} {{ 5.0 // 2 }} {{ 2 ** 3 ** 2 }}
{{ 1e22 }} {{ 1e16 }} {{ 123456789.123 }} {{ 1e-5 }} {{ 0.0001 }} {{ 1/3 }} {{ 100000000000000000000 + 1 }} {{ big }} {{ 0x1F + 0b11 + 0o17 + 1_000 }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ 'a' in s }} {{ 'H' in s }} {{ 'x' not in d }} {{ 1 in l }} {{ 1 == 1.0 }} {{ true == 1 }} {{ [1, 2] < [1, 3] }} {{ 'a' < 'b' }}
{{ not true or true and false }} {{ nil or 'x' }} {{ 0 and 1 }} {{ 'a' and 'b' }} {{ ([] or {} or '') is string }}
{{ 'a' ~ 1 ~ none ~ [1, 'x'] ~ missing }} {{ 'a' 'b' }} {{ 'x' * 3 }} {{ [1] * 2 + [3] }} {{ (1, 2) + (3,) }}
{{ s[0] }}{{ s[-1] }}{{ s[1:4] }}{{ s[::-1] }}{{ s[::3] }}{{ l[1:] }}{{ l[:-1] }}{{ l[5:] }}{{ u[0] }}{{ u[-1] }}{{ u[2:6] }}{{ 'abc'[5] is defined }}
{{ d.b }} {{ d['a'] }} {{ d.C[1] }} {{ d.get('zz') }} {{ d.get('zz', 'dflt') }} {{ d.items }}
{{ rows[0].name }} {{ n.x.y[0].z }} {{ n['x']['y'] }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.items()|list }} {{ d|items|list }}
{{ [1, 'it\'s', "q\"q", none, true, 2.0, {'k': [1, (2,)]}, 'é\n\t\\'] }} {{ {'a': 1, 2: 'b'} }} {{ () }} {{ (1,) }} {{ d.keys() }} {{ range(3) }}
{{ missing }}|{{ missing is defined }}|{{ missing|default('x') }}|{{ ''|default('y', true) }}|{{ nil|default('z') }}|{{ missing|length }}|{{ [missing] }}
{{ missing.attr }}
{{ missing + 1 }}
{{ nil.attr }}
{{ d.nope.deeper }}
{{ 'a' + 1 }}
{{ [1] < ['a'] }}
{{ l.append(4) }}
{{ d.update({}) }}
{{ s.__class__ }}
{{ raise_exception('stop here') }}
{{ nosuch() }}
{{ s|nosuch }}
{% if no %}{{ s|nosuch }}{% endif %}ok
{{ 'x' if no else s|upper }} {{ 'only' if no }} {{ ('a' if yes else 'b') ~ 'c' }}
{% for a in 5 %}{% endfor %}
{% set ns = 1 %}{% set ns.x = 2 %}
{{ '<' ~ s|e ~ html|escape ~ '>' }} {{ html|safe }} {{ (html|safe) + '<' }} {{ html|e|e }} {{ html|e|forceescape }}
{{ s|upper }}{{ s|lower }}{{ s|title }}{{ s|capitalize }}{{ t|trim }}{{ s|length }}{{ u|upper }}{{ u|lower }}{{ "don't stop-me (now)"|title }}
{{ s|replace('l', '1') }} {{ s|replace('l', '1', 1) }} {{ s|center(20) }}| {{ s|truncate(8) }} {{ s|truncate(8, true, '~', 0) }} {{ s|wordcount }} {{ s|reverse }} {{ s|list }}
{{ lines|indent }}|{{ lines|indent(2, true) }}|{{ lines|indent('> ', blank=true) }}
{{ 'one two three four'|wordwrap(9) }} {{ 'abcdefghij'|wordwrap(4) }} {{ 'well-known fact'|wordwrap(6) }}
{{ l|first }}{{ l|last }}{{ l|sort }}{{ l|sort(reverse=true) }}{{ ls|sort }}{{ ls|sort(case_sensitive=true) }}{{ l|sum }}{{ l|min }}{{ l|max }}{{ l|reverse|list }}{{ el|first is defined }}
{{ ls|unique|list }} {{ l|join('-') }} {{ rows|join(', ', attribute='name') }} {{ l|batch(2)|list }} {{ l|batch(2, 0)|list }} {{ l|slice(2)|list }} {{ l|slice(2, 'f')|list }}
{{ rows|map(attribute='name')|list }} {{ ls|map('upper')|join }} {{ rows|map(attribute='q', default=0)|list }} {{ rows|sum(attribute='age') }} {{ rows|sort(attribute='age')|map(attribute='name')|list }}
{{ l|select('odd')|list }} {{ l|reject('gt', 1)|list }} {{ mixed|select('string')|list }} {{ mixed|select|list }} {{ rows|selectattr('tag', 'eq', 'x')|map(attribute='name')|list }} {{ rows|rejectattr('age', 'in', [1, 3])|list|length }}
{% for g in rows|groupby('tag') %}{{ g.grouper }}:{{ g.list|length }}{{ g[0] }} {% endfor %}{% set g = l|select('gt', 1) %}{{ g|list }}{{ g|list }}
{{ d|dictsort(by='value') if no else d|dictsort(true) }} {{ {'b': 1, 'A': 2}|dictsort(reverse=true) }} {{ {'q': 'a b', 'r': 1}|urlencode }} {{ 'a b/ü?'|urlencode }} {{ {'id': 'x', 'n': none}|xmlattr }} {{ '<b>bold</b>  &amp; x'|striptags }}
{{ '42'|int + 1 }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '0x1f'|int(base=16) }} {{ 3.9|int }} {{ '1.5'|float }} {{ 'x'|float }} {{ 2.5|round }} {{ 3.14159|round(2) }} {{ 3.1|round(method='ceil') }} {{ 42|round }} {{ -3|abs }}
{{ 1000|filesizeformat }} {{ 1|filesizeformat }} {{ 5000000|filesizeformat(true) }} {{ '%s is %d and %.2f'|format('x', 3, 1.5) }} {{ '%(a)s'|format(a=1) }}
{{ d|tojson }} {{ [1.0, none, true, 'é<>&\'"', {'x': ()}]|tojson }} {{ 'é😀'|tojson(ensure_ascii=true) }} {{ d|tojson(indent=2) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ [1, {'a': 2}]|tojson(separators=(',', ':')) }} {{ []|tojson(indent=4) }} {{ {1: 2, none: 3, true: 4}|tojson }}
{{ missing|tojson }}
{{ s.split(', ') }} {{ t.split() }} {{ csv.split(',') }} {{ csv.split(',', 2) }} {{ csv.rsplit(',', 1) }} {{ lines.splitlines() }} {{ s.partition(', ') }} {{ s.rpartition('l') }}
{{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}|{{ s.strip('Hd') }}|{{ s.startswith('He') }}{{ s.endswith(('x', 'd')) }}|{{ s.find('o') }}{{ s.rfind('o') }}{{ s.find('zz') }}|{{ s.count('l') }}|{{ s.replace('l', 'L', 1) }}
{{ 'abc'.isalpha() }}{{ '12'.isdigit() }}{{ 'Ab'.istitle() }}{{ ' '.isspace() }}{{ 'a1'.isalnum() }}{{ 'AB'.isupper() }} {{ 'ab'.ljust(4, '.') }}{{ '7'.zfill(3) }}{{ 'x'.join(['a', 'b']) }} {{ 'aXb'.swapcase() }} {{ 'prefix-x'.removeprefix('prefix-') }}
{{ '{} {1}'.format(1) if no else '{0}-{x}-{0!r:>5}-{y:.2f}-{z:,}'.format('a', x=1, y=2.0, z=12345) }} {{ '%5d|%-5s|%05.1f|%x|%%' % (1, 'a', 2.5, 255) }} {{ '%s' % 'one' }} {{ '{:^9}|{:*<5}|{:+d}|{:b}|{:e}'.format('c', 'l', 3, 5, 1234.5) }}
{{ 1 is odd }}{{ 2 is even }}{{ 9 is divisibleby 3 }}{{ 'a' is lower }}{{ 'A' is upper }}{{ s is string }}{{ i is number }}{{ i is integer }}{{ f is float }}{{ yes is boolean }}{{ yes is true }}{{ no is false }}{{ nil is none }}{{ d is mapping }}{{ l is sequence }}{{ d is sequence }}{{ s is iterable }}{{ i is iterable }}{{ range is callable }}
{{ 3 is eq 3 }}{{ 3 is ne(4) }}{{ 3 is gt 2 }}{{ 3 is le 2 }}{{ 1 is in l }}{{ none is sameas none }}{{ 'upper' is filter }}{{ 'odd' is test }}{{ ('a'|safe) is escaped }}{{ 1 is not even }}
{% set c = cycler('odd', 'even') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('; ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}{{ dict(a=1, **{'b': 2}) }}{{ range(2, 10, 3)|list }}
{% for x in 'aab' %}{{ loop.changed(x) }}{{ loop.cycle('p', 'q') }}{% endfor %}
{{ strftime_now('%Y-%m-%d %H:%M:%S %d %b %B %A %j %y %I %p %%') }}
{{ range(200000) }}
{{ 1 / 0 }}
{{ {[1]: 2} }}
{{ 'abc'|first|upper ~ ('b'|upper) }} {{ l|map('string')|join('') }} {{ (1, 2, 3)|last }} {{ -1|abs }} {{ - 1 + 2 }} {{ +1 }}
{% include 'x' %}
{{ lines|length }}{%- if yes -%}   tight   {%- endif -%}   {{- s -}}   end
{% for x in l -%}
   {{ x }},
{%- endfor %}

  {% if yes %}
  indented
  {% endif %}
  {%+ if yes %}kept{% endif +%}

{{ "tail" }}
""".strip("\n").split("\n")

# The last lines form one template about white space.
SPLIT = next(k for k, line in enumerate(CASES) if line.startswith("{% for x in l -%}"))
CASES = CASES[:SPLIT] + ["\n".join(CASES[SPLIT:]) + "\n", "\r\n{% if yes %}\r\nx\r\n{% endif %}\r\n", "a\n\n", "",
                         "  {#- c -#}  \n  {# d #}\n  e"]
