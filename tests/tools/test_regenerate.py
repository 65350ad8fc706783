"""How goldens are compared: ids to the letter, floats up to rounding."""
import importlib.util
import pathlib

import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "tools/oracles/regenerate.py"
spec = importlib.util.spec_from_file_location("regenerate", PATH)
regenerate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(regenerate)


@pytest.mark.parametrize("old, new, told", [
    ({"ids": [1, 2]}, {"ids": [1, 3]}, [".ids[1] was '2', is '3'"]),
    ({"ids": [1, 2]}, {"ids": [1]}, [".ids has 2 elements, now 1"]),
    ({"gap": 0.5}, {"gap": 0.5004}, []),
    ({"gap": 0.5}, {"gap": 0.6}, [".gap was 0.5, is 0.6"]),
    ({"a": 1}, {"b": 1}, [".a is only in the committed file", ".b is only in the new file"]),
    ({"torch": "1", "x": True}, {"torch": "2", "x": True}, []),
    ({"x": 1}, {"x": 1.0}, [".x was '1', is '1.0'"]),
])
def test_differences(old, new, told):
    assert list(regenerate.differences(old, new)) == told


def test_every_golden_and_script_is_there():
    for goldens, command in regenerate.ORACLES.values():
        assert all((regenerate.ROOT / golden).is_file() for golden in goldens.split())
        assert (regenerate.ROOT / command.split()[0]).is_file()
