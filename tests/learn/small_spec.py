"""A small experiment as a spec file, for tests that need one."""

SPEC = """
kind = "classification"
name = "a small one"

[data]
kind = "spirals"
points = 60
turns = 0.5

[network]
neurons = 4
layers = 4

[training]
steps = 40000
batch = 20
"""


def spec_file(tmp_path, text=SPEC):
    file = tmp_path / "spec.toml"
    file.write_text(text)
    return file
