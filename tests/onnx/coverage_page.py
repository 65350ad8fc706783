"""docs/onnx-coverage.md, from a run of the ONNX suite and from the importer's own table."""
import collections
import pathlib
import re

import onnx
import onnx.defs

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/onnx-coverage.md"
IMPORTER = ROOT / "src/import/onnx"
CONTRIB = {"com.microsoft": "of onnxruntime's contributed operators", "ai.onnx.ml": "of the operators of classic machine learning"}


def lowered(domain):
    """Names in the importer's tables with this domain."""
    found = set()
    for source in IMPORTER.glob("lower_*.cpp"):
        found.update(re.findall(rf'"{re.escape(domain)}::(\w+)"', source.read_text()))
    return sorted(found)


def nodes_of(nodes):
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from nodes_of(graph.node)


def operators(model):
    """(domain, name, version since which it means this) of each operator that a model contains."""
    opsets = {o.domain: o.version for o in model.opset_import}
    own = {(f.domain, f.name) for f in model.functions}
    for node in list(nodes_of(model.graph.node)) + [n for f in model.functions for n in nodes_of(f.node)]:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (node.domain, node.op_type) in own or domain not in opsets:
            continue
        try:
            yield domain, node.op_type, onnx.defs.get_schema(node.op_type, opsets[domain], domain).since_version
        except onnx.defs.SchemaError:
            continue


def page(folder, results):
    versions, passed, total = collections.defaultdict(set), collections.Counter(), collections.Counter()
    for name, (state, _) in results.items():
        seen = set(operators(onnx.load(str(folder / name / "model.onnx"), load_external_data=False)))
        for domain, op, since in seen:
            versions[domain, op].add(since)
        for key in {(domain, op) for domain, op, _ in seen}:
            total[key] += 1
            passed[key] += state == "PASS"
    good = sum(state == "PASS" for state, _ in results.values())
    lines = [
        "# ONNX coverage",
        "Made by `tests/onnx/suite.py --write-coverage`, and held against each test run.", "",
        f"The backend suite of onnx {onnx.__version__} has {len(results)} tests without training, sequences, maps, text, random numbers and image files; "
        f"brisk passes **{good}** of them on the CPU.", ""]
    others = sorted((name, state) for name, (state, _) in results.items() if state != "PASS")
    if others:
        words = {"UNSUPPORTED": "refused, exit 3", "ERROR": "an error", "MISMATCH": "an answer off by rounding"}
        lines += ["The others:", ""] + [f"- `{name}`: {words.get(state, state)}" for name, state in others] + [""]
    lines += ["## Operators of the suite", "Versions are those since which an operator means what the tests ask of it. A test counts for each operator in it.", "",
              "| operator | versions | tests passed |", "|---|---|---|"]
    for domain, op in sorted(versions):
        name = f"{domain}::{op}" if domain else op
        lines.append(f"| {name} | {', '.join(map(str, sorted(versions[domain, op])))} | {passed[domain, op]} of {total[domain, op]} |")
    lines += ["", "## Beyond the suite", "Checked against onnxruntime by `tests/onnx/contrib.py`, `tests/onnx/real_models.py` and `make oracles`."]
    for domain, what in CONTRIB.items():
        names = lowered(domain)
        lines += ["", f"`{domain}`, {len(names)} {what}: " + ", ".join(names) + "."]
    return "\n".join(lines) + "\n"


def is_current(folder, results, write):
    text = page(folder, results)
    if write:
        PAGE.write_text(text)
    return PAGE.exists() and PAGE.read_text() == text
