"""
Make a tiny language model and two drafters for it, without a network.

    python make_tiny_model.py OUTDIR

writes OUTDIR/target, OUTDIR/draft-same (the target's own weights: every guess is right) and
OUTDIR/draft-other (other weights of the same shape: every guess is wrong, which is what a
collapsed drafter looks like). About 1 MB and 2 seconds each. Run it with the interpreter of the
environment that `install.sh` builds.

The weights are random, yet two figures are chosen so that speculation behaves as it does on a
real model. ATTENTION keeps attention's share small: the next token hangs mostly on the last one,
so greedy text loops and is easy to guess. SHARPNESS puts the likeliest token well ahead of the
second, so that rounding never decides which one greedy decoding takes.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY: Final = 512
HIDDEN: Final = 128
LAYERS: Final = 2
ATTENTION: Final = 0.001
SHARPNESS: Final = 2.0
SEEDS: Final = {"target": 1, "draft-same": 1, "draft-other": 2}
BOS, EOS, PAD = "<s>", "</s>", "<pad>"
SENTENCE: Final = (
    "the draft model guesses a few tokens and the target checks them all in one pass "
    "so a good guess saves time while a bad one only costs it"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Train a byte-level tokenizer on made-up sentences; the same one on every run."""
    rng = random.Random(0)  # noqa: S311 - nothing secret, and the same on every run
    words = SENTENCE.split()
    sentences = [" ".join(rng.choices(words, k=40)) + ".\n" for _ in range(400)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BOS, EOS, PAD],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token=PAD
    )


def make_model(seed: int) -> LlamaForCausalLM:
    """Build a two-layer Llama with random weights; the same seed gives the same weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        initializer_range=0.2,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        dtype="bfloat16",
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(ATTENTION)
        model.lm_head.weight.mul_(SHARPNESS)
    return model.to(torch.bfloat16).eval()


def main() -> None:
    """Write the target and its drafters, each with the tokenizer beside it."""
    if len(sys.argv) != 2:
        sys.exit("usage: make_tiny_model.py OUTDIR")
    out = Path(sys.argv[1])
    tokenizer = make_tokenizer()
    for name, seed in SEEDS.items():
        make_model(seed).save_pretrained(out / name)
        tokenizer.save_pretrained(out / name)
        size = sum(file.stat().st_size for file in (out / name).iterdir())
        print(f"{name}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
