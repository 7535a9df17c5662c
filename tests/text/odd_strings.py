"""Texts that tokenizers get wrong: written by hand, one per known trouble, and mixed (fixed seed)."""

from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Iterator

CODE = [
    "def f(x: int) -> str:\n    return f'{x!r:>10}'  # ok\n",
    "for (size_t i = 0; i < n; ++i) {\n\ta[i] += b[i] << 3;\n}\n",
    "fn main() -> Result<(), Box<dyn Error>> { let v: Vec<u8> = vec![0x1F; 16]; Ok(()) }",
    "SELECT a.id, COUNT(*) FROM t AS a WHERE a.x>=10 AND b!='it''s' GROUP BY 1;",
    '<div class="a b" onclick=\'go("x")\'>&nbsp;&amp;</div>\r\n\r\n',
    "#!/bin/sh\nset -euo pipefail; x=$((1+2)); echo \"${x}\" | sed 's/[0-9]\\+/#/g' >/dev/null 2>&1",
    'package main\n\nimport "fmt"\n\nfunc main() {\n\tfmt.Println("héllo, 世界")\n}\n',
    "const f = async (x) => { await x?.y ?? 0; return `${x}\\n`; };\n\n\n",
    "public static void main(String[] args) throws IOException {"
    "\r\n\t\tSystem.out.println(args.length);\r\n}",
    '{"a": [1, 2.50, -3e10, null, true], "b": {"c\\u00e9": "\\n"}}',
    "x = [i**2 for i in range(10) if i%2==0]\n\n\n\nif x:\n        pass\n    \n",
    "\\documentclass{article}\\begin{document}$\\frac{a_1}{b^{2}}$\\end{document}",
    "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,4 @@\n-old\n+new\n \tsame",
    "0x7fffDEAD 0b1010 0o777 1_000_000 1.5e-10 .5 5. 1,234,567.89 192.168.0.1 v1.2.3-rc.4+5",
]
PROSE = [
    "It's we're I'll you've he'd I'm don't IT'S WE'RE I'LL YOU'VE "
    "HE'D I'M DON'T It'S 'tis 'Twas o'clock 'S 'ſ 'RE're",
    "’s ’t ’re “quoted” ‘single’ — dash – en … dots",
    "The quick brown fox jumps over the lazy dog.",
    "Ünïcödé naïve façade Straße œuvre İstanbul ıI ŁÓDŹ ǅ ǆ ﬁ ﬃ",
    "Привет, мир! Ёлка; объём — это хорошо?",
    "你好，世界！今天天气怎么样？我们去公园吧。",
    "日本語のテキスト、カタカナとひらがな。「引用」ｶﾀｶﾅ",
    "안녕하세요 세계! 한국어 텍스트입니다. ㄱㄴㄷ",
    "שלום עולם! מה שלומך?",
    "مرحبا بالعالم! كيف حالك؟ ١٢٣٤٥ ۱۲۳ لِلَّهِ",
    "नमस्ते दुनिया १२३ क्षत्रिय",
    "สวัสดีชาวโลก ๑๒๓ ภาษาไทย",
    "Γειά σου Κόσμε· ΑΒΓ άέή",
    "Xin chào thế giới, tiếng Việt có dấu: ẩ ữ ỡ ặ",
    "გამარჯობა მსოფლიო Բարեւ աշխարհ ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𝒳 𐍈𐌰 𠀀𠀁 𓀀𓁐",
]
SYMBOLS = [
    "👨‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈 🇩🇪🇫🇷 ☠️ ❤️ 1️⃣ #️⃣ 🤷🏿‍♀️",
    "😀😃😄😁😆😅🤣😂🙂🙃🫠😉",
    "² ³ ½ ¼ ٣ Ⅷ ⅷ ① ⑳ ㊿ 〇 一二三 ௧ ൧ 🄀 ⁵₅ ⅓",
    "a²b³ x½y ½½ 10½ ²²² 1²3",
    "e\u0301 a\u0308\u0323 n\u0303o Z\u0351\u036b\u0343a\u0310l\u0301g\u0315o \u0301alone",
    "€£¥₿ ™©® °C µm ±× ÷ ≠ ≤ ∞ ∑∏∫ √ ∂ ∇ ∈ ∅",
    "→ ← ⇒ ⟶ ▶ ■ □ ● ★ ☆ ♠ ♥ ✓ ✗",
    "┌─┬─┐│ │├─┤└─┘ ░▒▓█",
    "!!! ??? ... ,,, ;;; ::: --- ___ *** ### $$$ %%% &&& @@@ ^^^ ~~~ ``` ||| \\\\\\ ///",
    "(([[{{<<>>}}]])) ()[]{}<> ({[<>]})",
    "https://example.com/a?b=c&d=%20e#frag mailto:x.y+z@example.co.uk C:\\Users\\x /usr/local/bin",
    "\ufffd\ufffd \ufeffbom \u200bzero\u200bwidth\u200b "
    "\u2060 \u00adsoft \u202ertl\u202c \ue000 \U000f0000 \U0010ffff",
]
SPACES = [
    " ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\u00a0",
    "\u2003",
    "\u3000",
    "\u0085",
    "\u2028",
    "\u2029",
    "\x0b",
    "\x0c",
]
SPACES += [
    "\u1680",
    "\u2007",
    "\u202f",
    "\u205f",
    "\u180e",
    "\u200b",
    "\ufeff",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x1f",
]
SPECIAL = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<tool_call>",
    "</tool_call>",
    "<reponame>",
    "<repo_name>",
]
SPECIAL += [
    "<|fim_prefix|>",
    "<|file_sep|>",
    "<file_sep>",
    "<empty_output>",
    "[PAD151665]",
    "</s>",
    "<s>",
    "<|eot_id|>",
]
SPECIAL += [
    "<|im_start",
    "|im_end|>",
    "<|im_start|im_end|>",
    "< |im_start|>",
    "<|IM_START|>",
    "<<|im_end|>>",
    "<|",
]
WORDS = [
    "a",
    "I",
    "the",
    "Hello",
    "hello",
    "HELLO",
    "world",
    "x1",
    "naïve",
    "Straße",
    "мир",
    "世界",
    "こんにちは",
    "안녕",
    "שלום",
]
WORDS += [
    "مرحبا",
    "नमस्ते",
    "don't",
    "IT'S",
    "'ll",
    "'LL",
    "n't",
    "_x",
    "__init__",
    "camelCase",
    "snake_case",
    "ALLCAPS",
    "a.b",
]
WORDS += [
    "😀",
    "👨‍👩‍👧",
    "e\u0301",
    "½",
    "²",
    "٣",
    "12",
    "123",
    "1234",
    "12345678901",
    "0",
    "3.14",
    "-1",
    "+",
    "==",
    "->",
    "();",
    "{",
    "}",
]
WORDS += [
    '"',
    "'",
    "`",
    "...",
    "!?",
    "//",
    "/*",
    "*/",
    "#",
    "\\n",
    "$",
    "€",
    "ﬁ",
    "ǅ",
    "𝔘",
    "𠀀",
    "\x00",
    "\x01",
    "\x1b[0m",
    "\x7f",
]

SEED = 20240229
NUM_MIXED = 1500


def _hand_written() -> Iterator[str]:
    yield from ["", " ", "a", "\n", "\x00", "a\x00b", "(\x04)", "a\x04b", "\x04\x06\x13\x14\x16\x1d"]
    yield from CODE + PROSE + SYMBOLS + SPECIAL + WORDS
    yield "".join(map(chr, range(0x80)))
    for start in range(0, 0x800, 0x40):  # Latin to Arabic, unassigned ones included
        yield "".join(map(chr, range(start, start + 0x40)))
    for space in SPACES:
        yield from [
            space,
            space * 2,
            space * 7,
            f"a{space}b",
            f"a{space * 2}b",
            f"a{space * 3}1",
            f"{space}!",
            f"x{space}",
        ]
        yield from [f" {space}\n", f"{space}\n\n{space}a", f"\n{space} a", f"{space}'s", f"{space}世"]
    for length in (1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 64, 100):
        for char in " \n\t1aA-=_.é世":
            yield char * length
        yield " " * length + "x" + "\n" * length + "y"
    for special in SPECIAL:
        yield from [
            f"a{special}b",
            f" {special} ",
            f"{special}{special}",
            f"{special}\nuser\n",
            f"x'{special}'s",
        ]
    yield "pneumonoultramicroscopicsilicovolcanoconiosis" * 8
    yield "aAbB0cC_dD-" * 60
    yield "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
    yield (
        "<|im_start|>system\nYou are x.<|im_end|>\n<|im_start|>user\nHi <|endoftext|> there<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def _character(rng: random.Random) -> str:
    """An assigned character, every script as likely as its number of characters (CJK held down)."""
    while True:
        code = rng.choice(
            [rng.randrange(0x20, 0x3000), rng.randrange(0x3000, 0x20000), rng.randrange(0x20, 0x250)]
        )
        if unicodedata.category(chr(code)) not in ("Cs", "Cn"):
            return chr(code)


def _mixed(rng: random.Random) -> str:
    """A string of a random mood: words and spaces, single characters, pieces of code, special-token text."""
    pieces: list[str] = []
    for _ in range(rng.randrange(1, 12)):
        mood = rng.randrange(8)
        if mood < 3:
            pieces += [rng.choice(WORDS), rng.choice(["", " ", " ", "\n"])]
        elif mood == 3:
            pieces += [rng.choice(SPACES) * rng.randrange(1, 5)]
        elif mood == 4:
            pieces += [_character(rng) for _ in range(rng.randrange(1, 6))]
        elif mood == 5:
            text = rng.choice(CODE + PROSE + SYMBOLS)
            start = rng.randrange(len(text))
            pieces += [text[start : start + rng.randrange(1, 24)]]
        elif mood == 6:
            pieces += [str(rng.randrange(10 ** rng.randrange(1, 9)))]
        else:
            pieces += [rng.choice(SPECIAL)] if rng.random() < 0.4 else [chr(rng.randrange(0x20, 0x7F))]
    return "".join(pieces)


def odd_strings() -> list[str]:
    """The strings, each once, in a fixed order."""
    rng = random.Random(SEED)
    mixed = [_mixed(rng) for _ in range(NUM_MIXED)]
    return list(dict.fromkeys([*_hand_written(), *mixed]))


if __name__ == "__main__":
    sys.stdout.write(f"{len(odd_strings())} strings\n")
