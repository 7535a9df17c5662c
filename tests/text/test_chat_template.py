"""Chat templates: exact prompts, the same as transformers renders, and templates that mean harm."""

from __future__ import annotations

import datetime
import time
import tracemalloc
from typing import Any

import pytest

from guessahead.errors import ModelError, PromptError
from guessahead.text.safe_template import budget as template_budget
from guessahead.text.stream import ChatTemplate
from guessahead.text.tokenizer import Tokenizer
from tests.text import store
from tests.text.synthetic import llama_bpe

HELLO = [{"role": "user", "content": "Hello"}]
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  1 + 1? <b>\"é\" & 'x'\n"},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "世界 👨‍👩‍👧?"},
]
LLAMA3 = """{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{%- if not tools is none %}{{ raise_exception("no tools") }}{% endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" + system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""  # noqa: E501
ALTERNATING = """{{ bos_token }}{% for message in messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Roles must alternate user/assistant/user/assistant!') }}
    {% endif %}
    {% if loop.index > 50 %}{% break %}{% endif %}
[{{ loop.index }}/{{ loop.length }}{{ ' last' if loop.last else '' }}] {{ message.content.strip().replace('1', 'one') }}
{% endfor %}
"""  # noqa: E501
MANY = """{% macro show(m, depth=0) %}{{ '>' * depth }}{{ m.role|upper }}: {{ m | tojson }}
{% if depth < 2 %}{{ show(m, depth + 1) }}{% endif %}{% endmacro %}
{% set ns = namespace(seen=[], text='') %}
{% for m in messages if m.role != 'system' %}
    {% set ns.seen = ns.seen + [m.role] %}
    {% set ns.text = ns.text ~ m.content[:3] ~ loop.index %}
{% generation %}
{{ show(m) }}
{% endgeneration %}
{% endfor %}
{{ ns.seen | join(', ') }}|{{ ns.text | replace('\\n', ' ') | indent(2) }}
{{ messages | map(attribute='role') | unique | list | tojson(indent=2) }}
{{ (messages | selectattr('role', 'equalto', 'user') | list | length) }} {{ '%' }} {{ ', '.join(['a', 'b'] | map('upper')) }}
{% filter upper %}x{{ eos_token }}{% endfilter %}{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}
"""  # noqa: E501


def template(source: str | None, **tokens: str) -> ChatTemplate:
    return ChatTemplate(source, **tokens)


def from_store(kind: str) -> ChatTemplate:
    metadata = store.metadata(kind)
    return ChatTemplate.from_gguf(metadata, Tokenizer.from_gguf(metadata))


def test_smollm2_prompt():
    assert from_store("smollm").render(HELLO) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )


def test_qwen_prompt_with_a_system_message_and_no_answer_opened():
    rendered = from_store("qwen2").render(HELLO, system="Be brief.", add_generation_prompt=False)
    assert rendered == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"


def test_the_prompt_becomes_special_tokens(tokenizers):
    ids = tokenizers["smollm"].encode(from_store("smollm").render(HELLO), special=True)
    assert ids[0] == ids.count(0) + 1 == 1  # <|im_start|>, and no <|endoftext|> anywhere
    assert ids.count(2) == 2  # <|im_end|>


def test_texts_of_bos_and_eos():
    metadata = llama_bpe() | {
        "tokenizer.chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    }
    rendered = ChatTemplate.from_gguf(metadata, Tokenizer.from_gguf(metadata)).render(HELLO)
    assert rendered == "<|begin_of_text|>Hello<|end_of_text|>"


@pytest.mark.reference
@pytest.mark.parametrize("source", ["smollm", "qwen2", LLAMA3, ALTERNATING, MANY], ids=lambda text: text[:10])
@pytest.mark.parametrize("messages", [HELLO, TALK, TALK[1:]])
def test_same_as_transformers(source, messages):
    if source in store.KINDS:
        source = store.metadata(source)["tokenizer.chat_template"]
    expected = _transformers(source, messages)
    if expected is None:
        with pytest.raises(PromptError, match="must alternate"):
            template(source, bos_token="<s>", eos_token="</s>").render(messages)
    else:
        assert template(source, bos_token="<s>", eos_token="</s>").render(messages) == expected


def _transformers(source: str, messages: list[dict[str, Any]]) -> str | None:
    """What transformers renders; None where the template raises."""
    import jinja2
    import tokenizers
    import transformers

    library = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"<s>": 0, "</s>": 1}, merges=[]))
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=library, bos_token="<s>", eos_token="</s>"
    )
    try:
        rendered = wrapped.apply_chat_template(
            messages, chat_template=source, tokenize=False, add_generation_prompt=True
        )
    except jinja2.TemplateError:
        return None
    assert isinstance(rendered, str)
    return rendered


def test_time_of_today():
    rendered = template("{{ strftime_now('%d %b %Y') }}").render(HELLO)
    assert datetime.datetime.strptime(rendered, "%d %b %Y")


def test_no_template_points_to_raw_text():
    metadata = llama_bpe()
    with pytest.raises(PromptError, match=r"no chat template.*raw"):
        ChatTemplate.from_gguf(metadata, Tokenizer.from_gguf(metadata)).render(HELLO)


@pytest.mark.parametrize(
    ("messages", "system", "message"),
    [
        ([], None, "no message"),
        ("Hello", None, "must be a list"),
        (HELLO[0], None, "must be a list"),
        (["Hello"], None, "message 0 must be a mapping"),
        ([*HELLO, {"content": "x"}], None, "message 1 must be a mapping"),
        ([*HELLO, {"role": "user"}], None, "message 1, of the role 'user', has no content"),
        ([{"role": "wizard", "content": ""}], None, "role 'wizard'"),
        ([{"role": ["user"], "content": ""}], None, "role"),
        ([{"role": "user", "content": None}], None, "message 0, of the role 'user', has no content"),
        ([{"role": "user", "content": "", "name": {5}}], None, "'name' of message 0 holds a set"),
        (TALK, "Be kind.", "two system messages"),
    ],
)
def test_bad_messages(messages, system, message):
    with pytest.raises(PromptError, match=message):
        template("x").render(messages, system=system)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (
            "{{ raise_exception('Only user\\nmessages') }}",
            PromptError,
            "refuses these messages: Only user messages",
        ),
        ("{% for x in %}", ModelError, "damaged: line 1"),
        ("\n{{ x | nosuchfilter }}", ModelError, "damaged: line 2: No filter named"),
        ("{{ messages[0].content.nothing.more }}", ModelError, "UndefinedError"),
        ("{{ 1 // 0 }}", ModelError, "ZeroDivisionError"),
        ("{{ messages.append(1) }}", ModelError, "SecurityError"),
        ("{{ ''.__class__.__mro__ }}", ModelError, "SecurityError"),
        ("{{ raise_exception.__globals__.x }}", ModelError, "SecurityError"),
        ("{% include 'x' %}", ModelError, "TypeError"),
        ("(" * 300_000, ModelError, "longer than"),
        ("{{ " + "(" * 50_000 + ")" * 50_000 + " }}", ModelError, "cannot be compiled|damaged"),
        (5, ModelError, "not a string"),
    ],
)
def test_failing_templates(source, error, message):
    metadata = llama_bpe() | {"tokenizer.chat_template": source}
    with pytest.raises(error, match=message) as caught:
        ChatTemplate.from_gguf(metadata, Tokenizer.from_gguf(metadata)).render(HELLO)
    assert "\n" not in str(caught.value)


R = "range(99999)"
HARMFUL = {
    "nested loops": f"{{% for a in {R} %}}{{% for b in {R} %}}{{% endfor %}}{{% endfor %}}",
    "loops over results": f"{{% for a in {R} %}}{{% set x = {R}|list|sort|first %}}{{% endfor %}}",
    "long output": f"{{% for a in {R} %}}" + "x" * 9999 + "{% endfor %}",
    "long set block": f"{{% set s %}}{{% for a in {R} %}}" + "x" * 9999 + "{% endfor %}{% endset %}",
    "doubling set blocks": "{% set s %}xxxxxxxx{% endset %}" + "{% set s %}{{ s }}{{ s }}{% endset %}" * 60,
    "doubling +": "{% set s = 'xxxxxxxx' %}" + "{% set s = s + s %}" * 60,
    "doubling ~": "{% set s = 'xxxxxxxx' %}" + "{% set s = s ~ s %}" * 60,
    "doubling lists, written": "{% set s = ['x'] %}" + "{% set s = [s, s] %}" * 60 + "{{ s }}",
    "doubling lists, compared": "{% set s = ['x'] %}{% set t = ['x'] %}"
    + "{% set s = [s, s] %}{% set t = [t, t] %}" * 60
    + "{{ s == t }}",
    "doubling lists, tojson": "{% set s = ['x'] %}" + "{% set s = [s, s] %}" * 60 + "{{ s | tojson }}",
    "doubling lists, string": "{% set s = ['x'] %}"
    + "{% set s = [s, s] %}" * 60
    + "{{ s | string | length }}",
    "doubling lists, is eq": "{% set s = ['x'] %}{% set t = ['x'] %}"
    + "{% set s = [s, s] %}{% set t = [t, t] %}" * 60
    + "{{ s is eq(t) }}",
    "doubling tuples, hashed": "{% set s = ('x',) %}" + "{% set s = (s, s) %}" * 60 + "{% set d = {s: 1} %}",
    "doubling by map": "{% set s = [0] %}" + "{% set s = [0, 0] | map('default', s, true) | list %}" * 60,
    "doubling by dict": "{% set s = 1 %}" + "{% set s = dict(a=s, b=s) %}" * 60 + "{{ s.values() }}",
    "doubling namespaces": "{% set s = namespace(a=1, b=1) %}"
    + "{% set t = namespace() %}{% set t.a = s %}{% set t.b = s %}{% set s = t %}" * 60
    + "{{ s }}",
    "doubling macros": "{% macro m(n) %}{% if n %}{{ m(n-1) ~ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "macro text": "{% macro m() %}"
    + "x" * 9999
    + "{% endmacro %}"
    + f"{{% for a in {R} %}}{{% set s = m() %}}{{% endfor %}}",
    "recursive loop": f"{{% for a in {R} recursive %}}{{{{ loop({R}) }}}}{{% endfor %}}",
    "endless macro": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "repeated string": "{{ 'x' * 10**10 }}",
    "repeated string, small": "{{ 'x' * 9999999999 }}",
    "repeated list": "{{ ([1] * 9999999999) | length }}",
    "power": "{{ 9 ** 9 ** 9 }}",
    "products": "{% set s = 99999999 %}" + "{% set s = s * s %}" * 60 + "{{ s }}",
    "percent format": "{{ '%9999999999d' % 1 }}",
    "format method": "{{ '{:>9999999999}'.format(1) }}",
    "format filter": "{{ '%9999999999d'|format(1) }}",
    "center": "{{ 'x'|center(9999999999) }}",
    "ljust": "{{ 'x'.ljust(9999999999) }}",
    "zfill through attr": "{{ ('x'|attr('zfill'))(9999999999) }}",
    "indent": "{{ 'x'|indent(9999999999, true) }}",
    "tojson indent": "{{ [1]|tojson(indent=9999999999) }}",
    "replace": "{% set s = 'x' * 999999 %}{{ s|replace('x', s) }}",
    "replace method": "{% set s = 'x' * 999999 %}{{ s.replace('x', s) }}",
    "replace everywhere": "{% set s = 'x' * 999999 %}{{ s.replace('', s) }}",
    "join": f"{{% set s = 'x' * 999999 %}}{{{{ {R}|join(s) }}}}",
    "join method": f"{{% set s = 'x' * 999999 %}}{{{{ s.join({R}|map('string')|list) }}}}",
    "lipsum": "{{ lipsum(n=9999999) }}",
    "strftime": "{{ strftime_now('%9999999999d') }}",
    "sum of lists": "{% set s = [[1] * 9999] * 9999 %}{{ s|sum(start=[])|length }}",
    "batch": "{{ [1]|batch(9999999999, 'x')|list }}",
}


@pytest.mark.parametrize("name", HARMFUL)
def test_harmful_templates_end_soon_and_small(name, monkeypatch):
    monkeypatch.setattr(template_budget, "MAX_SECONDS", 0.3)
    tracemalloc.start()
    begin = time.process_time()
    try:
        with pytest.raises(ModelError) as caught:
            template(HARMFUL[name]).render(HELLO)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert time.process_time() - begin < 2.0  # tracemalloc slows it down
    assert peak < 400e6


def test_long_conversations_are_no_harm(tokenizers):
    """A template that works on what has been said spends little of its budget."""
    messages = [
        {"role": "user", "content": "word " * 400},
        {"role": "assistant", "content": "word " * 400},
    ] * 250
    for kind in store.KINDS:
        rendered = from_store(kind).render(messages)
        assert len(rendered) > 500 * 2000
    assert template("{% for m in messages %}{{ m.content|trim|upper|lower }}{% endfor %}").render(messages)


def test_one_template_used_by_two_threads_keeps_two_budgets():
    from concurrent.futures import ThreadPoolExecutor

    shared = template("{% for a in range(9999) %}{{ messages[0].content }}{% endfor %}")
    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(lambda i: shared.render([{"role": "user", "content": str(i)}]), range(8)))
    assert texts == [str(i) * 9999 for i in range(8)]
