"""`python -m benchmarks.peers`: tokens per second of every engine that is installed, in one table."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Final

import click

from benchmarks.peers.base import NotInstalledError, Peer
from benchmarks.peers.common import common_options, finish, markdown, say, show_progress
from benchmarks.peers.measure import best, measure, summaries
from guessahead.errors import InputError
from guessahead.measure.bench.lock import alone
from guessahead.measure.bench.provenance import provenance
from guessahead.measure.bench.workload import Task, default_tasks, read_tasks, select
from guessahead.model import LanguageModel
from guessahead.models.load import load, resolve

_PEERS: Final = ("guessahead", "llama.cpp", "transformers", "openvino")


@click.command()
@common_options
@click.option("--draft-model", help="A second model, for the modes that need one.")
@click.option("--peers", default=",".join(_PEERS), show_default=True, help="Which engines.")
@click.option("--drafters", default="", help="Which of ours.  [default: all that can run]")
@click.option("--prompts", type=click.Path(path_type=Path), help="JSON lines.  [default: the package's 24]")
@click.option("--only", default="", help="Only prompts with these ids or categories.")
@click.option("--max-tokens", type=click.IntRange(2), default=96, show_default=True)
@click.option("--gamma", type=int, help="Of our drafters.  [default: as many as pay]")
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True)
def main(model: str, threads: int, json_file: IO[str] | None, **values: Any) -> None:
    """The same prompts (token ids), the same GGUF file, the same number of tokens, greedy; interleaved.

    Tokens per second count the tokens after the first one. "identical" compares with the same engine's own
    plain decoding. The table is Markdown, on stdout.
    """
    try:
        lm = load(model, threads=threads)
        draft_model = load(values["draft_model"], threads=threads) if values["draft_model"] else None
        given = default_tasks() if values["prompts"] is None else read_tasks(values["prompts"])
        tasks = select(given, _names(values["only"]))
        with alone(say), contextlib.ExitStack() as stack:
            peers = _start(model, lm, draft_model, threads, values)
            for peer in peers:
                stack.callback(peer.close)
            results = measure(
                peers,
                tasks,
                lambda task: _prompt_ids(lm, task),
                num_tokens=values["max_tokens"],
                num_rounds=values["repeat"],
                progress=show_progress,
            )
    except InputError as error:
        raise click.ClickException(str(error)) from None
    entries = summaries(results)
    document = {
        "benchmark": "peers",
        "model": lm.name,
        "draft_model": draft_model.name if draft_model is not None else None,
        "max_tokens": values["max_tokens"],
        "gamma": values["gamma"],
        "num_rounds": values["repeat"],
        "versions": {peer.name: peer.version for peer in peers},
        "rows": [result.to_dict() for result in results],
        "modes": entries,
        "best": best(entries, peers[0].name),
    }
    say("")
    isa: str = lm.runner.engine.isa  # type: ignore[attr-defined]
    click.echo(_table(document, provenance(isa=isa, threads=threads, arguments=())))
    finish(document, json_file, isa=isa, threads=threads)


def _start(
    model: str, lm: LanguageModel, draft_model: LanguageModel | None, threads: int, values: dict[str, Any]
) -> Sequence[Peer]:
    """The engines that are wanted and installed; ours always, as the first."""
    from benchmarks.peers.huggingface import Transformers
    from benchmarks.peers.llama import Llama
    from benchmarks.peers.llama_binaries import LlamaBinaries
    from benchmarks.peers.openvino import OpenVINO
    from benchmarks.peers.ours import Ours

    path = resolve(model)
    draft = resolve(values["draft_model"]) if values["draft_model"] else None
    makers: dict[str, Callable[[], Peer]] = {
        "llama.cpp": lambda: Llama(LlamaBinaries(values["llama"]), path, draft, threads),
        "transformers": lambda: Transformers(path, draft, threads),
        "openvino": lambda: OpenVINO(path, threads),
    }
    wanted = values["peers"].split(",")
    for name in wanted:
        if name not in _PEERS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(_PEERS)}", param_hint="--peers")
    peers: list[Peer] = [Ours(lm, draft_model, values["gamma"], _names(values["drafters"]))]
    for name in wanted:
        if name in makers:
            try:
                show_progress(f"starting {name}")
                peers.append(makers[name]())
            except NotInstalledError as missing:
                say(f"{name} left out: it needs {missing}")
    return peers


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _prompt_ids(lm: LanguageModel, task: Task) -> list[int]:
    """The prompt in the model's chat template, as our tokenizer reads it: the same ids for everyone."""
    text = task.prompt
    if lm.chat_template is not None:
        text = lm.chat_template.render([{"role": "user", "content": text}], system=None)
    return [int(token) for token in lm.tokenizer.encode(text, special=True)]


def _table(document: dict[str, Any], origin: dict[str, Any]) -> str:
    rows = [
        [
            f"{entry['peer']} {entry['mode']}",
            f"{entry['tokens_per_second']:.1f}",
            f"{entry['ratio_to_own_plain']:.2f}",
            f"{entry['lowest_ratio']:.2f} to {entry['highest_ratio']:.2f}",
            f"{entry['num_identical']} of {entry['num_rows']}",
        ]
        for entry in document["modes"]
    ]
    headings = (
        "engine and mode",
        "tokens/s",
        "ratio to its own plain",
        "per prompt",
        "same text as its own plain",
    )
    machine = origin["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    lines = [
        f"{document['model']}, {len(document['rows']) // len(document['modes'])} prompts, "
        f"{document['max_tokens']} tokens each, greedy, medians of {document['num_rounds']} interleaved "
        f"rounds; {origin['date'][:10]}, {machine['cpu']}, {origin['threads']} threads; {versions}.",
        "",
        markdown(headings, rows),
        "",
    ]
    for each in document["best"]:
        lines.append(
            f"Best against best: guessahead {each['mode']} is {each['ratio']:.2f} times as fast as "
            f"{each['peer']} {each['peer_mode']}."
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
