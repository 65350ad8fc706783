#!/usr/bin/env bash
# Installs what a profile lacks: Debian packages by apt, Python packages into .venv, weights into .cache.
# usage: tools/setup.sh [build|demo|test|gcc12|sanitize|oracles|peers|real-models|proto|text]     (idempotent; well under a second when nothing is missing)
# The names, versions and hashes stand in tools/lock/packages.lock.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
lock=tools/lock/packages.lock

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

section() {  # the lines of one section of the lock file, without comments
  awk -v want="[$1]" '/^\[/ { inside = ($0 == want); next } inside && NF && $1 !~ /^#/' "$lock"
}

missing_packages() {  # of the apt groups named, those that are not installed
  local wanted
  wanted=$(for group in "$@"; do section "apt $group"; done | sort -u)
  # shellcheck disable=SC2086 — one word is one package
  { dpkg-query -W -f='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null || true; } |
    awk '$1 == "installed" { print $2 }' | sort -u | comm -13 - <(printf '%s\n' "$wanted")
}

install_packages() {  # apt groups...
  local missing as_root=()
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    die "this script installs with apt and knows Debian 12 only; install by hand what $lock names"
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "needs root to install (there is no sudo). As root: apt-get install --no-remove --no-install-recommends" $missing
    as_root=(sudo)
    [ -t 0 ] || as_root=(sudo -n)
    "${as_root[@]}" true || die "sudo was refused. As root: apt-get install --no-remove --no-install-recommends" $missing
  fi
  say "installing with apt:" $missing
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0)
  "${apt[@]}" update </dev/null
  # shellcheck disable=SC2086
  "${apt[@]}" install --no-remove --no-install-recommends $missing </dev/null
}

# The machine may carry other Pythons first in PATH; the lock's wheels are for Debian 12's, so that one comes first.
make_venv() {  # folder
  [ -x "$1/bin/python" ] && "$1/bin/python" -c 'import pip' 2>/dev/null && return 0
  local python
  for python in /usr/bin/python3 python3.11 python3; do
    if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
      say "making $1 with $("$python" --version)"
      rm -rf "$1"
      "$python" -m venv "$1"
      return 0
    fi
  done
  die "no Python 3.11 with venv and ensurepip was found (Debian: apt-get install python3-venv)"
}

install_python() {  # one pip group, into a folder
  local wanted stamp=$2/installed-$1
  wanted=$(section "pip $1")
  [ -f "$stamp" ] && [ -x "$2/bin/python" ] && [ "$(cat "$stamp")" = "$wanted" ] && return 0
  make_venv "$2"
  say "installing into $2: $(awk '{ printf "%s ", $1 }' <<<"$wanted")"
  printf '%s\n' "$wanted" >"$stamp.txt"
  "$2/bin/python" -m pip install --quiet --require-hashes --only-binary=:all: -r "$stamp.txt" </dev/null
  mv "$stamp.txt" "$stamp"
}

fetch_member() {  # pip group, end of a member's name, file, what it is: that member of the group's wheel, unpacked once
  local part
  [ -s "$3" ] && return 0
  make_venv .venv
  mkdir -p .cache
  part=$(mktemp -d .cache/fetch.XXXXXX)
  trap "rm -rf '$part'" EXIT
  say "fetching $4"
  section "pip $1" >"$part/requirements.txt"
  .venv/bin/python -m pip download --quiet --no-deps --only-binary=:all: --require-hashes -r "$part/requirements.txt" \
    -d "$part" </dev/null
  .venv/bin/python - "$part" "$2" "$3" <<'PY'
import glob, os, shutil, sys, zipfile
part, suffix, target = sys.argv[1:]
with zipfile.ZipFile(glob.glob(part + "/*.whl")[0]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith(suffix))
    with wheel.open(name) as source, open(part + "/member", "wb") as copy:
        shutil.copyfileobj(source, copy, 1 << 20)
os.replace(part + "/member", target)
PY
  rm -rf "$part"
}

fetch_model() { fetch_member model .gguf .cache/SmolLM2-135M-Instruct.Q4_1.gguf "SmolLM2-135M-Instruct (93 MB)"; }
fetch_proto() { fetch_member onnx onnx/onnx-ml.proto .cache/onnx-ml.proto "the definition of the ONNX format (18 MB)"; }

fetch_llama_source() {  # .cache/llama_cpp_python.tar.gz: llama.cpp's source with its vocabularies and chat templates
  local part
  [ -s .cache/llama_cpp_python.tar.gz ] && return 0
  make_venv .venv
  mkdir -p .cache
  part=$(mktemp -d .cache/fetch.XXXXXX)
  trap "rm -rf '$part'" EXIT
  say "fetching the source of llama.cpp with its vocabularies and chat templates (77 MB)"
  section "pip llama" >"$part/requirements.txt"
  .venv/bin/python -m pip download --quiet --no-deps --no-binary llama-cpp-python --require-hashes \
    -r "$part/requirements.txt" -d "$part" </dev/null
  mv "$part"/llama_cpp_python-*.tar.gz .cache/llama_cpp_python.tar.gz
  rm -rf "$part"
}

fetch_text() {  # .cache/text: vocabularies (ggml-vocab-*.gguf with .inp and .out) and templates/*.jinja
  local part
  [ -d .cache/text/templates ] && return 0
  fetch_llama_source
  part=$(mktemp -d .cache/fetch.XXXXXX)
  trap "rm -rf '$part'" EXIT
  tar xzf .cache/llama_cpp_python.tar.gz -C "$part" --wildcards '*/vendor/llama.cpp/models/*'
  rm -rf .cache/text
  mv "$part"/llama_cpp_python-*/vendor/llama.cpp/models .cache/text
  rm -rf "$part"
}

case "${1:-build}" in
  build) install_packages build; fetch_proto ;;
  demo) install_packages build; fetch_proto; fetch_model ;;
  test) install_packages build; install_python test .venv; install_python suite .venv; fetch_proto; fetch_model ;;
  gcc12) install_packages build gcc12; fetch_proto ;;
  sanitize) install_packages build sanitize; fetch_proto ;;
  oracles) install_packages build; install_python oracles .venv-oracles; fetch_proto; fetch_model; fetch_text ;;
  peers) install_packages build gcc12; install_python oracles .venv-oracles; fetch_proto; fetch_model; fetch_llama_source ;;
  real-models) install_packages build; install_python test .venv; install_python suite .venv; install_python onnxruntime .venv; fetch_proto ;;
  proto) fetch_proto ;;
  text) fetch_text ;;
  *) die "unknown profile '$1' (build, demo, test, gcc12, sanitize, oracles, peers, real-models, proto, text)" ;;
esac
