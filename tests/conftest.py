"""Shared settings, and which tests are too long for every day.

`make test` leaves out what is marked `claim` (theorems against runs and errors planted into
reproductions: `make claims`) and `document` (every example and code block: `make check`).
"""

import gc
import os
import signal
from pathlib import Path

os.environ.setdefault("METASTABLE_CACHE", "off")  # nothing is kept in the home of who runs tests

import jax
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

import tests.shapes  # noqa: F401  (the hook looks it up as an attribute of `tests`)

# Shapes and types that signatures state are checked at every call of these packages.
install_import_hook(
    [f"metastable.{part}" for part in ("measures", "fields", "flows", "observe")],
    "tests.shapes.checked",
)

# Property tests run without a deadline, since the first example compiles.
settings.register_profile("metastable", deadline=None, max_examples=20, derandomize=True)
settings.load_profile("metastable")

# A suite started in the background is handed a SIGINT that is ignored, and would hand it on to the
# commands it interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Thousands of compiled functions make every full collection slow.
gc.set_threshold(50_000, 20, 100)

# Each compiled program maps a few pieces of memory, of which Linux gives a process 65 530.
MAPS = Path("/proc/self/maps")


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Programs of earlier files are dropped before the mappings run out: a crash, not an error."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > 30_000:
        jax.clear_caches()
        gc.collect()


# Files, or tests in them, by the end of their name.
CLAIMS = """
reproductions/test_planted.py
reproductions/test_random_depth.py
reproductions/test_signal_propagation.py
test_pure_attention_entries.py::test_planted_error
test_talk_entries.py::test_planted_error
test_measure_transformer.py::test_training_lowers_the_error
test_model_entries.py::test_scores_that_are_not_even_are_seen
systems/test_smoothness.py
systems/test_pure_attention.py
systems/test_placements.py
systems/test_repulsion.py
systems/test_space.py
systems/test_single_cluster.py
systems/test_resampled.py
test_steering.py::test_gradients_of_both_objectives_are_finite_differences
test_steering.py::test_two_tokens_arrive_and_the_adaptive_solver_agrees
test_neural_ode.py::test_layers_drawn_at_random_have_the_predicted_mean_and_covariance
test_clusters_on_demand.py::test_the_gradient_is_that_of_finite_differences
test_magnitudes.py::test_every_field_of_every_size_ends_or_is_refused
test_magnitudes.py::test_a_large_beta_is_the_motion_to_oneself
test_gradients.py::test_gradients_through_noise_and_switches
test_ensemble.py::test_the_stated_error_holds
test_staircase.py::test_merging_changes_nothing_up_to_the_first_plateau
test_pretrained.py::test_albert_past_its_depth_stays_in_many_clusters_where_the_untrained_collapses
reproductions/test_in_context_maps.py
test_feedforward_map.py::test_a_strong_layer_decides_and_a_weak_one_does_not
test_particle_fit.py::test_the_teacher_fits_its_own_states_and_is_found_again
test_equilibria.py::test_shares_account_for_every_start
random_matrices/test_verification.py
""".split()
DOCUMENTS = "test_examples.py::test_example test_documents.py::test_every_code_block_runs".split()
# These are run every day all the same.
DAILY = "refused[SA- refused[USA- refused[heads-".split()


def pytest_collection_modifyitems(items):
    for item in items:
        name = item.nodeid.split("[")[0]
        if any(part in item.nodeid for part in DAILY):
            continue
        for mark, parts in (("claim", CLAIMS), ("document", DOCUMENTS)):
            if any(name.endswith(part) or f"{part}::" in name for part in parts):
                item.add_marker(getattr(pytest.mark, mark))
