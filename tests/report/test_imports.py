import re
import subprocess
import sys
from pathlib import Path

import metastable.report


def test_every_public_name_exists():
    for name in metastable.report.__all__:
        assert getattr(metastable.report, name) is not None


def test_only_the_drawing_modules_import_matplotlib():
    source = Path(metastable.report.__file__).parents[1]
    users = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"^\s*(from|import) (matplotlib|PIL)\b", path.read_text("utf-8"), re.MULTILINE)
    }
    drawing = "clouds drawing gif picture styles".split()
    assert users == {f"report/{name}.py" for name in drawing}


def test_terminal_text_does_not_wait_for_matplotlib_and_figures_need_no_display():
    code = (
        "import sys, metastable.report.text\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import metastable.report.pages.run, metastable.report.drawing\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
