"""Templates in the styles that published ones have, messages for them, and what transformers renders."""

from __future__ import annotations

from typing import Any

from guessahead.text.chat_template import ChatTemplate

HELLO = [{"role": "user", "content": "Hello"}]
PARTS = [{"type": "text", "text": "Hello"}, {"type": "text", "text": "you"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": [1, "é"]}'}}
CALLED = [
    {"role": "user", "content": "Call it."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
]


# Templates in the styles that published ones have.
def loop(body: str) -> str:
    return f"{{% for m in messages %}}{body}</>{{% endfor %}}"


PLAIN = loop("<{{ m['role'] }}>{{ m['content'] }}") + "{% if add_generation_prompt %}<assistant>{% endif %}"
JOINED = PLAIN.replace("{{ m['content'] }}", "{{ '' + m['content'] | trim }}")
LOOPED = PLAIN.replace(
    "{{ m['content'] }}",
    "{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endif %}",
)
ONLY_PARTS = PLAIN.replace(
    "{{ m['content'] }}",
    "{% for p in m.content %}{% if p['type'] == 'text' %}{{ p['text'] }}{% endif %}{% endfor %}",
)
IF_DEFINED = loop("<{{ m.role }}>{% if m.content is defined %}{{ m.content }}{% else %}calls{% endif %}")
ABSENT = loop("{% if 'tool_calls' not in m %}<{{ m.role }}>{{ m.content }}{% endif %}")
CALLS = loop(
    "<{{ m.role }}>{% if m.content %}{{ m.content }}{% endif %}"
    "{% for c in m.tool_calls %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}"
)
ADDED = CALLS.replace("{% if m.content %}{{ m.content }}{% endif %}", "{{ '' + m.content }}")
IF_NONE = CALLS.replace("{% for c", "{% if m.content is none %}{% for c").replace(
    "]{% endfor %}", "]{% endfor %}{% endif %}"
)
CALLS_AS_TEXT = CALLS.replace("{{ c.function.arguments | tojson }}", "{{ 'args ' + c.function.arguments }}")
DEVELOPER = loop(
    '{% if m.role == "developer" %}# {{ m.content }}{% else %}<{{ m.role }}>{{ m.content }}{% endif %}'
)
REASONED = loop("<{{ m.role }}>({{ m.reasoning_content }}){{ m.content }}")


def render(source: str, messages: Any, **settings: Any) -> str:
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>").render(messages, **settings)


def transformers_render(source: str, messages: Any, **settings: Any) -> str:
    import tokenizers
    import transformers

    library = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"<s>": 0, "</s>": 1}, merges=[]))
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=library, bos_token="<s>", eos_token="</s>"
    )
    found = wrapped.apply_chat_template(messages, chat_template=source, tokenize=False, **settings)
    assert isinstance(found, str)
    return found
