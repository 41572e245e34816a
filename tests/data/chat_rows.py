"""Records token ids and assistant masks of conversations as transformers gives them: chat_rows.jsonl, a row a line. The
templates are those of tests/chat/record.py, the tokenizers those of tests/tokenizer/recorded/families.
usage: python tests/data/chat_rows.py        (transformers 5.24, jinja2 3.1.6)"""
import json
import os

from transformers import PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = os.path.join(HERE, "..", "tokenizer", "recorded", "families")
CHATML = """{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
HEADER = """{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim + '<|eot_id|>' }}{% endgeneration %}{% else %}{{ m.content | trim + '<|eot_id|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""
INST = """{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + '[/INST]' }}{% elif m.role == 'assistant' %}{% generation %}{{ ' ' + m.content | trim + eos_token }}{% endgeneration %}{% else %}{{ raise_exception('no system') }}{% endif %}{% endfor %}"""
TURNS = """{{ bos_token }}{% for m in messages %}{% set role = 'model' if m.role == 'assistant' else m.role %}{{ '<start_of_turn>' + role + '\\n' }}{% if role == 'model' %}{% generation %}{{ m.content | trim + '<end_of_turn>' }}{% endgeneration %}{% else %}{{ m.content | trim + '<end_of_turn>' }}{% endif %}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""
WORDS = """{% for m in messages %}{{ m.role + ': ' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{{ '\\n' }}{% endfor %}"""
TOOLS = """{% if tools %}{{ '<tools>\\n' }}{% for t in tools %}{{ t | tojson + '\\n' }}{% endfor %}{{ '</tools>' }}{% endif %}{{ mood | default('plain') }}
""" + CHATML
with open(os.path.join(HERE, "..", "chat", "harmony.jinja")) as f:  # in tokens of llama3; the clock stands still
    HARMONY = f.read().replace('strftime_now("%Y-%m-%d")', '"today"')
for ours, its in {"<|start|>": "<|start_header_id|>", "<|message|>": "<|end_header_id|>", "<|end|>": "<|reserved_special_token_0|>", "<|return|>": "<|eot_id|>",
                  "<|call|>": "<|end_of_text|>", "<|channel|>": "<|python_tag|>"}.items():
    HARMONY = HARMONY.replace(ours, its)
CASES = [  # family, template, bos, eos, whether prefixes show the same mask
    ("qwen2", CHATML, None, "<|im_end|>", True),
    ("smollm2", CHATML, None, "<|im_end|>", True),
    ("llama3", HEADER, "<|begin_of_text|>", "<|eot_id|>", True),
    ("mistral", INST, "<s>", "</s>", True),
    ("gemma", TURNS, "<bos>", "<end_of_turn>", True),
    ("qwen2", WORDS, None, "<|endoftext|>", False),
]
U = [{"role": "user", "content": c} for c in ("When will my card arrive?", "and the PIN, «bitte»?", "  why\n\n", "")]
A = [{"role": "assistant", "content": c} for c in ("In 2 days.", "  It is on its way ✓\n", "no", "")]
CHATS = [[U[0], A[0]], [U[0], A[0], U[1], A[1]], [U[2], A[2], U[0]], [U[3], A[3], U[0], A[1]], [U[0]]]

TOOL = {"type": "function", "function": {"name": "freeze", "description": "Freezes a «card»", "parameters": {"type": "object", "properties": {}}}}
# What a row has beside its messages, and what TRL makes of it (data_utils.py of 1.x): arguments of apply_chat_template.
BESIDE = [({"tools": [TOOL]}, {"tools": [TOOL]}), ({"tools": json.dumps([TOOL, TOOL])}, {"tools": [TOOL, TOOL]}),
          ({"tools": None, "chat_template_kwargs": {"mood": "calm"}}, {"mood": "calm"}),
          ({"tools": [], "chat_template_kwargs": None}, {}), ({"tools": "", "chat_template_kwargs": {}}, {})]

CALL = {"role": "assistant", "content": None, "thinking": None, "tool_calls": [{"type": "function", "function": {"name": "freeze", "arguments": {}}}]}
FREEZE = [U[0], CALL, {"role": "tool", "content": "done"}, {**A[2], "thinking": "say so"}]
# Of gpt-oss's kind: conversations, and whether prefixes show the mask. They do not where thoughts are dropped in front of a call.
CHANNELS = [([U[0], {**A[0], "thinking": "two"}], True), (CHATS[1], True), ([U[0], {**A[0], "thinking": "two"}, U[1], {**A[1], "thinking": "post"}], True),
            (CHATS[3], True), (CHATS[2], True), (FREEZE, True), (FREEZE + [U[1], A[0]], True), ([U[0], {**CALL, "thinking": "hm"}], True),
            ([U[0], {**CALL, "thinking": "hm"}, *FREEZE[2:]], False), (CHATS[4], True)]

with open(os.path.join(HERE, "chat_rows.jsonl"), "w") as f:
    rows = [(*case, chat, {}, {}) for case in CASES for chat in CHATS] + [("qwen2", TOOLS, None, "<|im_end|>", True, CHATS[1], *b) for b in BESIDE]
    rows += [("llama3", HARMONY, "<|begin_of_text|>", "<|eot_id|>", prefixes, chat, {"tools": [TOOL]}, {"tools": [TOOL]}) for chat, prefixes in CHANNELS]
    for family, template, bos, eos, prefixes, chat, beside, said in rows:
        t = PreTrainedTokenizerFast(tokenizer_file=os.path.join(FAMILIES, family, "tokenizer.json"), bos_token=bos, eos_token=eos)
        got = t.apply_chat_template(chat, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True, **said)
        ends = ["<|end_of_text|>"] if template == HARMONY else []
        row = {"family": family, "template": template, "bos": bos, "eos": eos, "ends": ends, "prefixes": prefixes, "messages": chat, **beside,
               "ids": got["input_ids"], "mask": got["assistant_masks"]}
        f.write(json.dumps(row, ensure_ascii=False) + "\n")
