"""The keys of config.json: those that are read, have no effect, or are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Family:
    """A model class of transformers, by its name in `architectures`.

    architecture: GGUF's name. paired: GGUF stores the rows of q and k in another order (see folder.py).
    biases: layers whose bias is part of the model. defaults: the class's values of absent keys.
    neutral: settings of the class that are supported with these values only.
    """

    architecture: str
    paired: bool
    biases: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    neutral: Mapping[str, tuple[object, ...]] = field(default_factory=dict)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COMMON: Final[Mapping[str, Any]] = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
_GATES: Final = ("silu", "swish")
FAMILIES: Final[Mapping[str, Family]] = {
    "LlamaForCausalLM": Family(
        "llama",
        paired=True,
        defaults={**_COMMON, "intermediate_size": 11008, "max_position_embeddings": 2048},
        neutral={"hidden_act": _GATES, "attention_bias": (False,), "mlp_bias": (False,)},
    ),
    "MistralForCausalLM": Family(
        "llama",
        paired=True,
        defaults={
            **_COMMON,
            "intermediate_size": 14336,
            "max_position_embeddings": 131072,
            "num_key_value_heads": 8,
            "sliding_window": 4096,
        },
        neutral={"hidden_act": _GATES},
    ),
    "Qwen2ForCausalLM": Family(
        "qwen2",
        paired=False,
        biases=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        defaults={
            **_COMMON,
            "intermediate_size": 22016,
            "max_position_embeddings": 32768,
            "num_key_value_heads": 32,
            "sliding_window": 4096,
            "use_sliding_window": False,
            "max_window_layers": 28,
            "layer_types": None,
        },
        neutral={"hidden_act": _GATES},
    ),
}
_READ: Final = _words(
    """
    architectures num_key_value_heads head_dim layer_types rope_theta rope_scaling rope_parameters
    original_max_position_embeddings partial_rotary_factor
    """
)
# Settings of other families, of transformers or of another engine -> values without effect.
_CHANGING: Final[Mapping[str, tuple[object, ...]]] = {
    "activation_function": _GATES,
    "add_cross_attention": (False,),
    "alibi": (False,),
    "attention_chunk_size": (),
    "attention_multiplier": (),
    "attn_logit_softcapping": (0,),
    "attn_temperature_tuning": (False, 0),
    "clip_qkv": (),
    "compression_config": (),
    "embedding_multiplier": (1,),
    "final_logit_softcapping": (0,),
    "hidden_activation": _GATES,
    "is_causal": (True,),
    "is_encoder_decoder": (False,),
    "lm_head_multiplier": (1,),
    "logit_scale": (1,),
    "logits_scaling": (1,),
    "n_routed_experts": (0,),
    "no_rope_layers": ([],),
    "num_experts": (0, 1),
    "num_local_experts": (0, 1),
    "per_layer_config": ({},),
    "qk_layernorm": (False,),
    "qk_norm": (False,),
    "quantization_config": (),
    "query_pre_attn_scalar": (),
    "residual_multiplier": (1,),
    "rope_interleaved": (False,),
    "rotary_pct": (1,),
    "scale_depth": (),
    "scale_emb": (1,),
    "sliding_window": (),
    "use_bidirectional_attention": (False,),
    "use_mrope": (False,),
    "use_parallel_residual": (False,),
    "use_qk_norm": (False,),
}
# Further keys of transformers, and those that trainers and converters add.
_SILENT: Final = _words(
    """
    _attn_implementation _attn_implementation_autoset _attn_implementation_internal _commit_hash
    _experts_implementation_internal _flash_attn_2_enabled _from_model_config _name_or_path attention_dropout
    attn_implementation auto_map base_model_name_or_path bos_token_id chunk_size_feed_forward
    cross_attention_hidden_size custom_pipelines decoder_start_token_id dtype embd_pdrop eos_token_id
    finetuning_task hidden_dropout id2label initializer_range is_decoder is_llama_config
    label2id language max_sequence_length model_max_length model_name model_type
    name_or_path neftune_noise_alpha num_labels output_attentions output_hidden_states pad_token
    pad_token_id prefix pretraining_tp problem_type pruned_heads resid_pdrop return_dict sep_token_id
    task_specific_params tf_legacy_loss tie_encoder_decoder tie_last_hidden_states tokenizer_class
    torch_dtype torchscript training transformers.js_config transformers_version unk_token_id unsloth_fixed
    unsloth_version use_bfloat16 use_cache use_flash_attention use_flash_attn vocab_size
    """
) | _words(
    # Settings of generation, which are not part of the model.
    """
    assistant_confidence_threshold assistant_lookbehind bad_words_ids begin_suppress_tokens diversity_penalty
    do_sample early_stopping encoder_no_repeat_ngram_size encoder_repetition_penalty epsilon_cutoff eta_cutoff
    exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty max_length
    max_new_tokens min_length no_repeat_ngram_size num_assistant_tokens num_assistant_tokens_schedule
    num_beam_groups num_beams num_return_sequences output_scores remove_invalid_values repetition_penalty
    return_dict_in_generate suppress_tokens target_lookbehind temperature top_k top_p typical_p
    """
)


def refusal(family: Family, config: Mapping[str, Any]) -> str | None:
    """The reason why a setting prevents running the model; None if there is none."""
    for key, value in config.items():
        if key in family.defaults or (value is None and key not in family.neutral):
            continue
        neutral = family.neutral.get(key, _CHANGING.get(key))
        if neutral is None or any(value == each for each in neutral):
            continue
        if key in ("quantization_config", "compression_config"):
            method = value.get("quant_method") if isinstance(value, dict) else None
            shown = _shown(method or "an unnamed method")
            return (
                f"{key}: the weights are quantised by {shown}, which is not supported; use the "
                "original folder or a GGUF file of the model"
            )
        if key == "sliding_window" and config.get("use_sliding_window") is False:
            continue
        return f"{key} {_shown(value)} is not supported"
    return None


def unknown(family: Family, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys that are in no list: neither of the class nor added by known programs."""
    known = _READ | _SILENT | family.defaults.keys() | family.neutral.keys()
    return tuple(
        key
        for key, value in config.items()
        if key not in known and value is not None and not (key in _CHANGING and key != "sliding_window")
    )


def _shown(value: object) -> str:
    return repr(value)[:80]
