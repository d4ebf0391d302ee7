"""Whatever goes wrong inside a command: one line, the right exit code, nothing on stdout."""

import errno
import json
import os
import re
import subprocess
import sys
import warnings
import zipfile

import pytest

import metastable as ms
from metastable.cli import main
from tests.learn.small_spec import SPEC, spec_file

PREDICT = ["predict", "--dim", "3", "--beta", "2", "--json"]


@pytest.fixture
def ask(monkeypatch, capsys):
    """Run the command line in this process: exit code, stdout and stderr."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["metastable", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


@pytest.fixture
def failing(monkeypatch):
    """Let `metastable predict` end with an exception."""

    def fail(error, before=lambda: None):
        def work(*_, **__):
            before()
            raise error

        monkeypatch.setattr("metastable.comparison.predict", work)

    return fail


ESCAPED = [
    OverflowError("cannot convert float infinity to integer"),
    MemoryError(),
    RecursionError("maximum recursion depth exceeded"),
    KeyError("outcome"),
    TypeError("list indices must be integers"),
    AttributeError("'NoneType' object has no attribute 'dim'"),
    EOFError("No data left in file"),
    zipfile.BadZipFile("File is not a zip file"),
    RuntimeError("line one\nline two " + "x" * 5000),
    OSError(errno.EIO, os.strerror(errno.EIO)),
    type("Panic", (BaseException,), {})("of a library"),
]


@pytest.mark.parametrize("error", ESCAPED, ids=lambda error: type(error).__name__)
def test_what_escapes_is_one_line_and_exit_code_1(ask, failing, error):
    failing(error)
    code, out, err = ask(*PREDICT)
    assert (code, out) == (1, "")
    kind = type(error).__name__
    assert re.fullmatch(
        rf"metastable: could not be computed: {kind}.*; --debug shows where\n", err
    ), err
    assert len(err) < 400


@pytest.mark.parametrize(
    "kind",
    [FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError, FileExistsError],
)
def test_a_path_the_system_refuses_is_bad_input(ask, failing, kind):
    codes = {
        FileNotFoundError: errno.ENOENT,
        NotADirectoryError: errno.ENOTDIR,
        IsADirectoryError: errno.EISDIR,
        PermissionError: errno.EACCES,
        FileExistsError: errno.EEXIST,
    }
    said = os.strerror(codes[kind])
    failing(OSError(codes[kind], said, "some/where"))
    assert ask(*PREDICT) == (2, "", f"metastable: {said}: some/where\n")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_names_the_file_and_the_remedy(ask, failing, number):
    failing(OSError(number, os.strerror(number), "disk/frames"))
    code, out, err = ask(*PREDICT)
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert "disk/frames cannot be written" in err and "make room" in err
    failing(OSError(number, "disk/cells cannot be written; make room and go on", "disk"))
    assert ask(*PREDICT)[::2] == (
        1,
        "metastable: disk/cells cannot be written; make room and go on\n",
    )


def test_an_empty_file_is_no_interrupt(ask, tmp_path):
    (tmp_path / "empty.npy").touch()
    code, out, err = ask("gaussian", "spectra", "--matrix", tmp_path / "empty.npy")
    assert (code, out) == (2, "") and "--matrix must be" in err and err.count("\n") == 1


def test_debug_raises_what_escaped(monkeypatch, failing):
    failing(EOFError("No data left in file"))
    monkeypatch.setattr(sys, "argv", ["metastable", *PREDICT, "--debug"])
    with pytest.raises(EOFError, match="No data left"):
        main()


def test_numpy_warns_of_nothing_before_the_line(ask, failing):
    def overflow():
        import numpy as np

        np.float64(1e308) * np.float64(10)

    failing(ValueError("kappa must be > 0; got 0.0."), overflow)
    assert ask(*PREDICT) == (2, "", "metastable: kappa must be > 0; got 0.0.\n")
    code, out, err = ask("predict", "--dim", "3", "--beta", "2", "--noise", "5e-324", "--json")
    assert code == 0 or (out == "" and err.count("\n") == 1)


@pytest.mark.filterwarnings("default::UserWarning")
def test_other_warnings_are_a_line_each(ask, failing):
    failing(ValueError("wrong."), lambda: warnings.warn("slow\nhere", stacklevel=1))
    code, _, err = ask(*PREDICT)
    assert code == 2
    assert err.splitlines() == ["metastable: warning: slow here", "metastable: wrong."]


def test_an_interrupt_says_what_is_left(ask, failing, monkeypatch, tmp_path):
    failing(KeyboardInterrupt())
    assert ask(*PREDICT) == (130, "", "metastable: interrupted; nothing was written.\n")

    def begin(experiment, folder, **_):
        folder.mkdir()
        (folder / "spec.toml").write_text(experiment.to_toml())
        raise KeyboardInterrupt

    monkeypatch.setattr("metastable.kinds.run", begin)
    code, out, err = ask("run", "--tokens", "4", "--out", tmp_path / "r", "--json")
    assert (code, out) == (130, "") and err.count("\n") == 1
    assert f"{tmp_path / 'r'} is unfinished: run the same command again" in err


# A suite started in the background hands down a SIGINT that is ignored.
INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from metastable.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "numpy.linalg", "jaxlib.xla_client"])
def test_an_interrupt_while_modules_are_imported(module):
    """NumPy crashes, hangs or raises something else if KeyboardInterrupt meets its import."""
    code = INTERRUPTED.format(module=module)
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--tokens", "4", "--horizon", "0.1"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = "metastable: interrupted; nothing was written.\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", said)


def test_an_interrupted_lesson_says_how_to_go_on(ask, monkeypatch, tmp_path):
    from metastable.learn import training

    looks = iter(range(3))

    def interrupt(*_):
        if next(looks, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "_diverged", interrupt)
    file, out = spec_file(tmp_path, SPEC.replace("40000", "60")), tmp_path / "out"
    code, printed, err = ask("learn", file, "--out", out, "--json")
    assert code == 130 and json.loads(printed)["outcome"] == "interrupted"
    assert (
        err
        == f"metastable: interrupted; {out} is unfinished: run the same command again to go on.\n"
    )
    code, _, err = ask("learn", file, "--json")
    assert code == 130 and "nothing was written" in err and "--out DIR" in err


def test_a_training_interrupted_while_it_compiles_is_an_outcome(monkeypatch):
    import jax
    import jax.numpy as jnp
    import optax

    from metastable.learn.training import Gradient, train

    method = Gradient(lambda x, goal: (x - goal) ** 2, optax.sgd(0.25))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(jax.stages.Lowered, "compile", interrupt)
    cut = train(jnp.asarray(0.5), method, jnp.asarray(1.0), steps=10)
    assert cut.outcome.name == "interrupted" and float(cut.parameters) == 0.5


def test_the_package_is_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "metastable", "--version"], capture_output=True, text=True
    )
    version, *commit = done.stdout.split()
    assert (done.returncode, version) == (0, ms.__version__)
    assert commit[:1] in ([], ["(commit"])  # that of a clone


def test_the_package_says_that_it_is_typed():
    """PEP 561; everything below src/metastable goes into the wheel."""
    from importlib.resources import files

    assert files("metastable").joinpath("py.typed").is_file()


def test_lazy_packages_list_their_public_names():
    import metastable.models
    import metastable.report

    for package in (ms, metastable.report, metastable.models):
        assert set(package.__all__) <= set(dir(package))
        assert not {"Any", "TYPE_CHECKING", "lazy"} & set(dir(package))
        with pytest.raises(AttributeError, match=f"{package.__name__}.*no attribute 'nothing'"):
            package.nothing  # noqa: B018
    assert {"fields", "models", "report"} <= set(dir(ms))
    assert metastable.report.save_figure is metastable.report.svg.save_figure
