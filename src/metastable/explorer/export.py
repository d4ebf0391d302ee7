"""An experiment as text to take away: TOML for the command line, Python for a script."""

from __future__ import annotations

from typing import Any

from metastable.flows.spec import Experiment

# Starts whose spec is the call of the function of the same name.
STARTS = "uniform orthogonal von_mises_fisher planted caps polygon simplex gaussian_points".split()


def to_python(experiment: Experiment) -> str:
    """A script that runs the experiment.

    In the words of the package where they are the same numbers; else through the spec.
    """
    call = _flow(experiment)
    if call is None:
        tree = experiment.model_dump(mode="json", exclude_none=True)
        return (
            "import metastable as ms\n"
            "from metastable.flows.build import run_experiment\n"
            "from metastable.flows.spec import Experiment\n\n"
            f"experiment = Experiment.model_validate({_literal(tree)})\n"
            "run = run_experiment(experiment)\n"
            "print(run)\nms.compare(run).print()\n"
        )
    measure, field, flow = call
    imports = "import math\n\n" if "math.inf" in flow else ""
    tokens = getattr(experiment.measure, "tokens", None)
    dim = getattr(experiment.measure, "dim", None)
    theory = ""
    if dim is not None:
        theory = f"ms.predict(field, dim={dim}{f', tokens={tokens}' if tokens else ''}).print()\n"
    return (
        f"{imports}import metastable as ms\n\n"
        f"start = {measure}\nfield = {field}\n{theory}"
        f"run = ms.flow(start, field, {flow})\nprint(run)\nms.compare(run).print()\n"
    )


def _flow(experiment: Experiment) -> tuple[str, str, str] | None:
    """Arguments of `flow` as text; None where the spec says more than a call can."""
    measure = experiment.measure
    fields = experiment.field if isinstance(experiment.field, tuple) else (experiment.field,)
    written = [_field(one) for one in fields]
    flow = experiment.flow
    if measure.kind not in STARTS or not written or None in written or flow.sum != "auto":
        return None
    words = [f"horizon={'math.inf' if flow.horizon == 'end' else repr(flow.horizon)}"]
    if flow.stepper is not None:
        stepper = _stepper(flow.stepper)
        if stepper is None:
            return None
        words.append(f"stepper={stepper}")
    words.append(f"frames={flow.frames}")
    words += [f"seed={flow.seed}"] if flow.seed else []
    words += ["check=True"] if flow.check else []
    start = f"ms.{measure.kind}({_keywords(measure.model_dump(exclude={'kind'}))})"
    return start, " + ".join(word for word in written if word), ", ".join(words)


def _stepper(stepper: Any) -> str | None:
    if stepper.kind == "merging":
        return f"ms.Merging({stepper.radius}, {_stepper(stepper.stepper)})"
    if stepper.kind == "adaptive":
        return f"ms.Adaptive({stepper.rtol}, {stepper.atol}, max_steps={stepper.max_steps})"
    if stepper.kind in ("layers", "hardmax"):
        given = stepper.model_dump(exclude_defaults=True, exclude={"kind"})
        return f"ms.{stepper.kind.capitalize()}({_keywords(given)})"
    return None


def _field(field: Any) -> str | None:
    if field.kind == "noise":
        return f"ms.Noise({field.kappa})"
    if field.kind != "self_attention" or field.position:
        return None
    given = field.model_dump(exclude_defaults=True, exclude={"kind", "beta"})
    if any(isinstance(value, dict) for value in given.values()):
        return None  # a random matrix is drawn by the spec
    return f"ms.SelfAttention({_keywords({'beta': field.beta, **given})})"


def _keywords(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())


def _literal(tree: Any, depth: int = 0) -> str:
    """A tree as Python, a line for each key."""
    if not isinstance(tree, dict) or not tree:
        return repr(tree)
    pad = "    " * (depth + 1)
    lines = [f"{pad}{key!r}: {_literal(value, depth + 1)},\n" for key, value in tree.items()]
    return "{\n" + "".join(lines) + "    " * depth + "}"
