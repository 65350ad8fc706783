"""Snippets of template code made by chance, for templates.py fuzz: mostly sensible, sometimes not."""

CONTEXT = {
    "s": "Hello, World", "t": "  padded\ttext \n", "u": "Größe ß ΑΣ 日本 😀", "e": "", "html": "<a href=\"x\">'&'</a>",
    "num": "42", "fl": "-3.75e1", "lines": "one\ntwo\r\n\nthree  ", "csv": "a,b,,c",
    "i": 7, "z": 0, "neg": -3, "big": 123456789012345678901234567890, "f": 2.5, "g": -0.1, "h": 1e22, "yes": True, "no": False,
    "nil": None, "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "mixed": [1, "x", None, 2.5, True, [1], {"k": "v"}], "el": [],
    "d": {"b": 1, "a": "x", "C": [1, 2]}, "ed": {}, "n": {"x": {"y": [{"z": "deep"}]}},
    "rows": [{"name": "bob", "age": 3, "tag": "x"}, {"name": "Al", "age": 1, "tag": "y"}, {"name": "cy", "age": 2, "tag": "x"}],
    "messages": [{"role": "user", "content": "Hi <b>"}, {"role": "assistant", "content": None}],
}
STRINGS = ["s", "t", "u", "e", "html", "num", "fl", "lines", "csv", "'a'", "'x-y z'", "'%s'", "' '", "'ß'", "'\\n'", "\"it's\"",
           "'a\\tb'", "'{}'", "'don\\'t'", "messages[0].content", "'1_000'", "'0x1f'", "' 12 '", "'inf'"]
NUMBERS = ["i", "z", "neg", "f", "g", "h", "0", "1", "2", "3", "-1", "10", "2.5", "1e3", "0.1", "yes", "no", "big", "0b101", "0x1F",
           "1_000", "1.5e-7", "100000000000000000000"]
LISTS = ["l", "ls", "mixed", "el", "[1, 2, 3]", "['a', 'b']", "(1, 2)", "rows", "[]", "range(5)", "d.keys()", "d.values()",
         "d.items()", "csv.split(',')", "[[1, 2], [3]]", "(3,)", "range(10, 0, -3)"]
DICTS = ["d", "ed", "n", "{'k': 1}", "rows[0]", "{}", "dict(a=1, b='c')", "messages[0]", "{1: 'a', 'b': [2]}"]
OTHERS = ["nil", "missing", "none", "true", "false", "missing2", "n.x.y", "d.nope", "rows[9]"]
STRING_FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "list", "first", "last", "reverse", "string", "int",
                  "float", "wordcount", "urlencode", "escape", "e", "safe", "forceescape", "striptags", "tojson", "trim('H ')",
                  "replace('l', 'LL')", "replace('', '-')", "replace('o', '0', 1)", "center(20)", "indent", "indent(2, true)",
                  "indent('>>', blank=true)", "truncate(5)", "truncate(8, true)", "truncate(9, end='~', leeway=0)", "wordwrap(5)",
                  "wordwrap(7, false)", "default('x')", "default('x', true)", "d('y')", "join('-')", "sort|join", "unique|list",
                  "batch(3)|list", "slice(3)|list", "select('in', 'aeiou')|list", "map('upper')|join", "tojson(ensure_ascii=true)",
                  "int(5)", "int(base=16)", "int(0, 0)", "float(1.5)", "format(1)", "format('v')", "min", "max", "items|list",
                  "filesizeformat", "abs", "round", "sum", "nosuch", "count", "attr('upper')", "reject('equalto', 'l')|join"]
NUMBER_FILTERS = ["abs", "int", "float", "round", "round(1)", "round(0, 'ceil')", "round(1, 'floor')", "string", "tojson",
                  "filesizeformat", "filesizeformat(true)", "default(1)", "round(-1)", "length", "list", "center(6)", "join",
                  "round(2, 'ceil')", "upper", "e", "first"]
LIST_FILTERS = ["length", "list", "first", "last", "join", "join(', ')", "join('-', attribute='name')", "sort", "sort(reverse=true)",
                "sort(case_sensitive=true)", "sort(attribute='age')", "sort(attribute='tag,age')", "unique|list", "reverse|list",
                "min", "max", "max(attribute='age')", "sum", "sum(attribute='age')", "sum(start=10)", "map(attribute='name')|list",
                "map(attribute='nope', default='?')|list", "map('string')|list", "map('upper')|list", "map('int')|list",
                "map('default', 'z')|list", "select|list", "reject|list", "select('string')|list", "select('gt', 1)|list",
                "reject('none')|list", "selectattr('name')|list", "selectattr('tag', 'eq', 'x')|list", "rejectattr('age', 'gt', 1)|list",
                "selectattr('age', '>', 1)|map(attribute='name')|join(',')", "groupby('tag')|list", "groupby('tag')|map('first')|list",
                "groupby('name', default='q')|map(attribute='list')|list", "batch(2)|list", "batch(2, 'z')|list", "slice(2)|list",
                "slice(2, 0)|list", "tojson", "tojson(indent=2)", "tojson(indent=0)", "tojson(separators=(',', ':'))", "string",
                "map('length')|list", "map('tojson')|join(' ')", "unique(attribute='tag')|list", "select('in', [1, 'b'])|list",
                "select('defined')|list", "min(attribute='name')", "sort(attribute='name', case_sensitive=true)", "count",
                "map(attribute=0)|list", "urlencode", "items|list", "map('first')|list", "select('odd')|list", "random2"]
DICT_FILTERS = ["length", "list", "items|list", "dictsort", "dictsort(true)", "dictsort(by='value')", "dictsort(reverse=true)", "tojson",
                "tojson(sort_keys=true)", "tojson(indent=1)", "string", "first", "last", "xmlattr", "urlencode", "join", "sort|list",
                "map('upper')|list", "default({})", "tojson(indent='\t', sort_keys=true)", "max", "reverse|list"]
STRING_METHODS = ["strip()", "lstrip()", "rstrip()", "strip('Hd')", "upper()", "lower()", "title()", "capitalize()", "swapcase()",
                  "split()", "split(',')", "split(',', 1)", "rsplit(',', 1)", "split(maxsplit=1)", "rsplit(None, 1)", "splitlines()",
                  "splitlines(true)", "startswith('He')", "endswith(('d', 'x'))", "startswith('l', 2)", "find('o')", "rfind('o')",
                  "index('l')", "find('o', 5)", "count('l')", "count('')", "replace('l', 'r')", "replace('l', 'r', 1)", "join(['a', 'b'])",
                  "join(csv)", "isdigit()", "isalpha()", "isspace()", "isupper()", "islower()", "istitle()", "isalnum()", "isnumeric()",
                  "isidentifier()", "isascii()", "isprintable()", "isdecimal()", "center(15, '*')", "ljust(14)", "rjust(14, '.')",
                  "zfill(15)", "partition('o')", "rpartition('o')", "removeprefix('He')", "removesuffix('ld')", "casefold()",
                  "expandtabs(4)", "format(1, 2, a=3)", "encode2()", "rindex('z')", "rfind('l', 0, -3)", "rstrip('\\n ')"]
LIST_METHODS = ["index(1)", "count('a')", "append(1)", "copy()", "pop()", "index('zz')", "nope()", "sort()"]
DICT_METHODS = ["get('a')", "get('zz')", "get('zz', 5)", "keys()", "values()", "items()", "keys()|list", "items()|list", "pop('a')",
                "update({})", "copy()", "get(missing)", "get(l)", "fromkeys(['p', 'q'], 1)"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping", "iterable",
         "sequence", "callable", "odd", "even", "divisibleby(2)", "divisibleby 3", "lower", "upper", "eq(1)", "== 7", "in [1, 7]",
         "sameas(none)", "gt 2", "ge(2.5)", "lt('b')", "ne('a')", "escaped", "filter", "test", "equalto('a')", "nosuchtest", "le 3"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "and", "or", "==", "!=", "<", "<=", ">", ">=", "in", "not in"]
SUBSCRIPTS = ["[0]", "[-1]", "[1:]", "[:2]", "[::-1]", "[1:-1]", "[::2]", "[-3:]", "['a']", ".a", "[1]", "[5]", "[none:2]", "['upper']()",
              ".b", "[0:0]", "[10:]", "[-2:10:2]", "[4:1:-1]", ".0", "[true]", "['x'].y[0].z", ".role", ".content", "[1.0]", "[:none]"]
SPECS = ["%d", "%s", "%5.1f", "%-6s|", "%05d", "%x", "%+d", "%e", "%g", "%r", "%c", "%%", "%.2s", "%o", "%X", "%#x", "% d", "%i", "%5s",
         "%G", "%.3e", "%s %s", "%(a)s", "%*d", "%.0f", "%u"]
BRACES = ["{}", "{0}", "{:>8}", "{:<8}|", "{:^8}", "{:*^9}", "{:05d}", "{:,}", "{:.2f}", "{!r}", "{:e}", "{:%}", "{:x}", "{:#b}", "{:+}",
          "{0[0]}", "{0.a}", "{a}", "{:{w}}", "{{}}", "{:.3}", "{:g}", "{:_}", "{: }", "{:08.3f}", "{:s}", "{:.0f}", "{:c}", "{:n}", "{:=8}",
          "{0!s:>6}", "{", "}", "{:.2%}", "{:G}", "{:o}", "{:X}", "{:10.3e}", "{:010}", "{:-}", "{:,.2f}", "{:<05}", "{1}"]


def number(rng, depth):
    k = rng.randrange(8)
    if depth <= 0 or k < 3:
        return rng.choice(NUMBERS)
    if k == 3:
        if rng.randrange(6) == 0:  # no towers of powers: Python would compute them
            return f"({rng.choice(NUMBERS)} ** {rng.choice(['2', '-1', '0.5', '0', '3', 'yes', 'neg'])})"
        return f"({number(rng, depth - 1)} {rng.choice(['+', '-', '*', '/', '//', '%'])} {number(rng, depth - 1)})"
    if k == 4:
        return f"{number(rng, depth - 1)}|{rng.choice(NUMBER_FILTERS)}"
    if k == 5:
        return f"-{number(rng, 0)}"
    if k == 6:
        return f"{rng.choice([string, items])(rng, depth - 1)}|length"
    return f"({string(rng, depth - 1)})|int"


def string(rng, depth):
    k = rng.randrange(12)
    if depth <= 0 or k < 3:
        return rng.choice(STRINGS)
    if k == 3:
        return f"({string(rng, depth - 1)} ~ {any_value(rng, depth - 1)})"
    if k == 4:
        return f"({string(rng, depth - 1)} + {string(rng, depth - 1)})"
    if k == 5:
        return f"({string(rng, depth - 1)} * {rng.choice(['2', '0', '-1', 'i', 'yes'])})"
    if k == 6:
        return f"{string(rng, depth - 1)}|{rng.choice(STRING_FILTERS)}"
    if k == 7:
        return f"({string(rng, depth - 1)}).{rng.choice(STRING_METHODS)}"
    if k == 8:
        return f"({string(rng, depth - 1)}){rng.choice(SUBSCRIPTS)}"
    if k == 9:
        return f"('{rng.choice(SPECS)}' % {rng.choice([number, any_value, tuple_of])(rng, depth - 1)})"
    if k == 10:
        return f"'{rng.choice(BRACES)}'.format({any_value(rng, depth - 1)}{rng.choice(['', ', a=1', ', w=6', ', 2'])})"
    return f"({any_value(rng, depth - 1)})|string"


def tuple_of(rng, depth):
    return f"({any_value(rng, depth - 1)}, {any_value(rng, depth - 1)})"


def items(rng, depth):
    k = rng.randrange(9)
    if depth <= 0 or k < 3:
        return rng.choice(LISTS)
    if k == 3:
        return f"[{any_value(rng, depth - 1)}, {any_value(rng, depth - 1)}]"
    if k == 4:
        return f"({items(rng, depth - 1)} + {items(rng, depth - 1)})"
    if k == 5:
        return f"{items(rng, depth - 1)}|{rng.choice(LIST_FILTERS)}"
    if k == 6:
        return f"({items(rng, depth - 1)}){rng.choice(SUBSCRIPTS)}"
    if k == 7:
        return f"({items(rng, depth - 1)}).{rng.choice(LIST_METHODS)}"
    return f"({items(rng, depth - 1)} * {rng.choice(['2', '0', 'neg'])})"


def mapping(rng, depth):
    k = rng.randrange(6)
    if depth <= 0 or k < 2:
        return rng.choice(DICTS)
    if k == 2:
        return f"{{{rng.choice(['s', '1', 'nil', 'i', chr(39) + 'k' + chr(39), 'l', '(1, 2)'])}: {any_value(rng, depth - 1)}}}"
    if k == 3:
        return f"{mapping(rng, depth - 1)}|{rng.choice(DICT_FILTERS)}"
    if k == 4:
        return f"({mapping(rng, depth - 1)}).{rng.choice(DICT_METHODS)}"
    return f"({mapping(rng, depth - 1)}){rng.choice([x for x in SUBSCRIPTS if ':' not in x])}"


def any_value(rng, depth):
    k = rng.randrange(14)
    if k < 3:
        return string(rng, depth)
    if k < 5:
        return number(rng, depth)
    if k < 7:
        return items(rng, depth)
    if k < 9:
        return mapping(rng, depth)
    if k == 9:
        return rng.choice(OTHERS)
    if k == 10:
        return condition(rng, depth - 1)
    if k == 11 and depth > 0:
        return f"({any_value(rng, depth - 1)} {rng.choice(BINARY)} {any_value(rng, depth - 1)})"
    if k == 12 and depth > 0:
        return f"({any_value(rng, depth - 1)} if {condition(rng, depth - 1)} else {any_value(rng, depth - 1)})"
    return rng.choice(STRINGS + NUMBERS + LISTS + DICTS)


def condition(rng, depth):
    k = rng.randrange(5)
    if k == 0 or depth <= 0:
        return f"({any_value(rng, max(0, depth - 1))} is {rng.choice(['', 'not '])}{rng.choice(TESTS)})"
    if k == 1:
        return f"(not {any_value(rng, depth - 1)})"
    if k == 2:
        return f"({any_value(rng, depth - 1)} {rng.choice(['<', '>', '==', '!=', '<=', '>=', 'in', 'not in'])} {any_value(rng, depth - 1)})"
    if k == 3:
        return f"({number(rng, depth - 1)} < {number(rng, depth - 1)} {rng.choice(['<', '==', '>='])} {number(rng, depth - 1)})"
    return f"({condition(rng, depth - 1)} {rng.choice(['and', 'or'])} {condition(rng, depth - 1)})"


LOOP = ["loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.revindex0", "loop.previtem",
        "loop.nextitem", "loop.cycle('p', 'q')", "loop.changed(x)", "loop.depth", "x", "x|string", "loop.nope"]


def space(rng):
    return rng.choice(["", "", " ", "\n", "\n  ", "  \n", "text", " a\n\n"])


def dash(rng):
    return rng.choice(["", "", "", "-", "+"])


def tag(rng, code):
    return "{%" + dash(rng) + " " + code + " " + dash(rng) + "%}"


def show(rng, code):
    return "{{" + rng.choice(["", "", "-"]) + " " + code + " " + rng.choice(["", "", "-"]) + "}}"


def statement(rng, depth):
    k = rng.randrange(14)
    body = lambda: space(rng) + (statement(rng, depth - 1) if depth > 0 and rng.randrange(2) else show(rng, any_value(rng, 1))) + space(rng)
    if k == 0:
        return tag(rng, f"if {condition(rng, 1)}") + body() + tag(rng, f"elif {condition(rng, 1)}") + body() + tag(rng, "else") + body() + tag(rng, "endif")
    if k in (1, 2):
        test = rng.choice(["", "", f" if {condition(rng, 0)}", " if x", " if x is string"])
        inner = "".join(space(rng) + show(rng, rng.choice(LOOP)) for _ in range(rng.randrange(1, 4)))
        stop = rng.choice(["", "", tag(rng, "if loop.index > 2") + tag(rng, rng.choice(["break", "continue"])) + tag(rng, "endif")])
        other = rng.choice(["", tag(rng, "else") + "none"])
        return tag(rng, f"for x in {rng.choice([items, items, any_value])(rng, 1)}{test}") + stop + inner + space(rng) + other + tag(rng, "endfor")
    if k == 3:
        return tag(rng, f"for k, v in {rng.choice(['d.items()', 'd|dictsort', 'n|items', 'rows', '[(1, 2)]', 'ed.items()'])}") + show(rng, "k ~ '=' ~ v") + tag(rng, "endfor")
    if k == 4:
        return tag(rng, f"set v = {any_value(rng, 2)}") + space(rng) + show(rng, "v")
    if k == 5:
        return tag(rng, "set v" + rng.choice(["", " | upper", " | trim"])) + body() + tag(rng, "endset") + show(rng, rng.choice(["v", "v|length", "v|trim"]))
    if k == 6:
        return (tag(rng, f"set ns = namespace(c={number(rng, 0)}, found=false)") + tag(rng, f"for x in {items(rng, 0)}") +
                tag(rng, "set ns.c = ns.c + 1") + tag(rng, "set c2 = loop.index") + tag(rng, "endfor") + show(rng, "ns.c ~ c2 ~ ns.found"))
    if k == 7:
        call = rng.choice(["m(1)", "m(s, b=2)", "m()", "m(1, 2, 3)", "m(b=1, z=2)", "m(*l)", "m(**{'a': 1})", "m(1)|upper"])
        extra = rng.choice(["", "{{ varargs }}", "{{ kwargs }}", "{{ caller is defined }}"])
        return tag(rng, "macro m(a, b=i)") + space(rng) + show(rng, "a ~ '/' ~ b") + extra + tag(rng, "endmacro") + show(rng, call)
    if k == 8:
        return tag(rng, f"with a = {any_value(rng, 1)}, b = 2") + show(rng, "a ~ b") + body() + tag(rng, "endwith") + show(rng, "a is defined")
    if k == 9:
        return tag(rng, f"filter {rng.choice(['upper', 'trim', 'replace(' + chr(39) + 'a' + chr(39) + ', 1)', 'indent', 'length', 'title|trim'])}") + body() + tag(rng, "endfilter")
    if k == 10:
        return ("{% macro w(t) %}<{{ t }}>{{ caller(" + rng.choice(["", "1", "t"]) + ") }}{% endmacro %}" +
                tag(rng, rng.choice(["call w('x')", "call(q) w(s)", "call(q='d') w(1)"])) + body() + rng.choice(["", "{{ q }}"]) + tag(rng, "endcall"))
    if k == 11:
        return "{#" + dash(rng) + " note " + rng.choice(["", "-"]) + "#}" + space(rng) + tag(rng, "raw") + space(rng) + "{{ x }}" + space(rng) + tag(rng, "endraw")
    if k == 12:
        return ("{% for x in [[1, [2, 3]], 4] recursive %}{{ loop.depth }}{{ loop(x) if x is iterable else x }}{% if not loop.last %},{% endif %}{% endfor %}" if rng.randrange(2) else
                "{% set j = joiner('|') %}{% set c = cycler('o', 'e') %}{% for x in " + items(rng, 0) + " %}{{ j() }}{{ c.next() }}{{ x }}{% endfor %}{{ c.current }}")
    return tag(rng, "generation") + body() + tag(rng, "endgeneration")


NAMES = ["i", "s", "p", "q", "loop", "x", "m1", "ns"]  # i and s are in the context


def scoped(rng, depth):
    """Statements about who sees which variable."""
    out = ""
    for _ in range(rng.randrange(1, 4)):
        k = rng.randrange(13 if depth > 0 else 5)
        name = rng.choice(NAMES)
        if k < 2:
            out += f"[{{{{ {rng.choice(NAMES[:6])} }}}}]"
        elif k < 4:
            out += f"{{% set {rng.choice(NAMES[:4])} = {rng.choice(['1', 'i', 'p', 'q', 's ~ 1', 'x', 'loop.index'])} %}}"
        elif k == 4:
            out += rng.choice(["{{ m1() }}", "{{ m1(2) }}", "{{ m2(q=3) }}", "{% set ns.v = i %}", "{{ ns.v }}", "{{ loop.index }}"])
        elif k < 7:
            out += f"{{% if {rng.choice(['i', 'p', 'no', 'q is defined', 'loop is defined'])} %}}{scoped(rng, depth - 1)}{{% else %}}{scoped(rng, depth - 1)}{{% endif %}}"
        elif k < 9:
            out += f"{{% for {rng.choice(['x', 'p', 'q', 'i'])} in {rng.choice(['l', '[1, 2]', 'range(i)[:2]', 'el'])}{rng.choice(['', '', ' if p', ' if x > 1'])} %}}{scoped(rng, depth - 1)}{rng.choice(['', '{% else %}' + scoped(rng, 0)])}{{% endfor %}}"
        elif k == 9:
            out += f"{{% macro {rng.choice(['m1', 'm2'])}({rng.choice(['', 'p=1', 'q=p, p=2', 'x=i'])}) %}}{scoped(rng, depth - 1)}{{% endmacro %}}"
        elif k == 10:
            out += f"{{% with {rng.choice(['p = 1', 'q = p', 'i = i, p = i', ''])} %}}{scoped(rng, depth - 1)}{{% endwith %}}"
        elif k == 11:
            out += f"{{% set {rng.choice(NAMES[:4])} %}}{scoped(rng, depth - 1)}{{% endset %}}"
        else:
            out += rng.choice(["{% generation %}" + scoped(rng, depth - 1) + "{% endgeneration %}",
                               "{% set ns = namespace(v=1) %}", "{% filter upper %}" + scoped(rng, depth - 1) + "{% endfilter %}",
                               "{% macro m1(x=5) %}<{{ caller(1) if caller is defined }}>{% endmacro %}{% call(p) m1() %}" + scoped(rng, depth - 1) + "{% endcall %}"])
    return out


def snippet(rng):
    if rng.randrange(4) == 0:
        return scoped(rng, 3)
    if rng.randrange(3):
        return "{{ " + any_value(rng, 3) + " }}"
    return "".join(space(rng) + statement(rng, 1) for _ in range(rng.randrange(1, 3))) + space(rng)
