"""Real transformers as trajectories, and small language models of our own. Needs PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metastable.core.lazy import lazy

if TYPE_CHECKING:
    from metastable.models.ablate import Ablation as Ablation
    from metastable.models.ablate import AttentionOnly as AttentionOnly
    from metastable.models.ablate import FeedForwardOnly as FeedForwardOnly
    from metastable.models.ablate import IdentityValue as IdentityValue
    from metastable.models.ablate import OneHead as OneHead
    from metastable.models.ablate import Resampled as Resampled
    from metastable.models.ablate import ScaledBeta as ScaledBeta
    from metastable.models.ablate import WithoutNorms as WithoutNorms
    from metastable.models.capture import Streamed as Streamed
    from metastable.models.capture import attention_maps as attention_maps
    from metastable.models.capture import capture as capture
    from metastable.models.capture import choices as choices
    from metastable.models.clock import fit_clock as fit_clock
    from metastable.models.depthwise import Depthwise as Depthwise
    from metastable.models.depthwise import depthwise as depthwise
    from metastable.models.embedding import analogy as analogy
    from metastable.models.embedding import context_pull as context_pull
    from metastable.models.folder import load as load
    from metastable.models.groups import Groups as Groups
    from metastable.models.groups import group_tokens as group_tokens
    from metastable.models.hypotheses import HeadHypotheses as HeadHypotheses
    from metastable.models.hypotheses import head_hypotheses as head_hypotheses
    from metastable.models.hypotheses import theorems as theorems
    from metastable.models.inspection import inspect as inspect
    from metastable.models.inspections import inspect_many as inspect_many
    from metastable.models.ladder import Ladder as Ladder
    from metastable.models.ladder import ladder as ladder
    from metastable.models.needle import NeedleProfile as NeedleProfile
    from metastable.models.needle import needle_profile as needle_profile
    from metastable.models.own.decoding import Beam as Beam
    from metastable.models.own.decoding import Greedy as Greedy
    from metastable.models.own.decoding import Sample as Sample
    from metastable.models.own.language import LanguageModel as LanguageModel
    from metastable.models.own.memory import gradient_norms as gradient_norms
    from metastable.models.own.memory import recall_curves as recall_curves
    from metastable.models.own.recurrent import Recurrent as Recurrent
    from metastable.models.own.recurrent import RecurrentConfig as RecurrentConfig
    from metastable.models.own.saving import load_model as load_model
    from metastable.models.own.saving import save_model as save_model
    from metastable.models.own.tasks import Batch as Batch
    from metastable.models.own.tasks import Copy as Copy
    from metastable.models.own.tasks import Recall as Recall
    from metastable.models.own.tasks import Reverse as Reverse
    from metastable.models.own.tasks import accuracy as accuracy
    from metastable.models.own.training import Recipe as Recipe
    from metastable.models.own.training import train_model as train_model
    from metastable.models.own.transformer import DecoderOnly as DecoderOnly
    from metastable.models.own.transformer import EncoderDecoder as EncoderDecoder
    from metastable.models.own.transformer import Trace as Trace
    from metastable.models.own.transformer import TransformerConfig as TransformerConfig
    from metastable.models.prompts import Prompt as Prompt

# Imported on first use: nothing else of the package may wait for PyTorch, or need it.
_HOMES = {
    "ablate": (
        "Ablation AttentionOnly FeedForwardOnly IdentityValue OneHead Resampled ScaledBeta "
        "WithoutNorms"
    ),
    "capture": "Streamed attention_maps capture choices",
    "clock": "fit_clock",
    "own.decoding": "Beam Greedy Sample",
    "depthwise": "Depthwise depthwise",
    "embedding": "analogy context_pull",
    "folder": "load",
    "groups": "Groups group_tokens",
    "hypotheses": "HeadHypotheses head_hypotheses theorems",
    "inspection": "inspect",
    "inspections": "inspect_many",
    "ladder": "Ladder ladder",
    "needle": "NeedleProfile needle_profile",
    "own.language": "LanguageModel",
    "own.memory": "gradient_norms recall_curves",
    "own.recurrent": "Recurrent RecurrentConfig",
    "own.saving": "load_model save_model",
    "own.tasks": "Batch Copy Recall Reverse accuracy",
    "own.training": "Recipe train_model",
    "own.transformer": "DecoderOnly EncoderDecoder Trace TransformerConfig",
    "prompts": "Prompt",
}
__getattr__, __dir__, _names = lazy("metastable.models", _HOMES, extra="models")
__all__ = _names  # pyright: ignore[reportUnsupportedDunderAll]
