#!/usr/bin/env bash
# Renders the real chat templates with many conversations and compares with what transformers makes of them (hashes
# in tests/data/templates/real.json), then checks that users' texts are known as such in every prompt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools/setup.sh text
python3 tests/real/templates.py .cache/text/templates build/bin/render_templates
