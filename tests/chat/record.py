"""Records what transformers (jinja2) renders of the templates below: recorded.jsonl, a case a line.
usage: python tests/chat/record.py        (transformers 5.24, jinja2 3.1.6)"""
import datetime
import json
import os
import sys

from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import _normalize_chat_messages, render_jinja_template

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = 1751112000  # 2025-06-28, noon in UTC


class Clock(datetime.datetime):
    @classmethod
    def now(cls):
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)


chat_template_utils.datetime = Clock

U = {"role": "user", "content": "  Hi there, what's 2+2?\n"}
A = {"role": "assistant", "content": " It is 4.\n\nTruly «4» ✓ "}
S = {"role": "system", "content": "Be kind. /no_think"}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
CHATS = [[U], [U, A], [S, U, A], [U, A, U, A], [S, U, A, U], [A, U], [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]]

# Families, as short as they can be and still use what the published templates use.
FAMILIES = {
    "chatml": """{%- set first = messages[0] -%}
{%- if first['role'] != 'system' -%}
    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}
{%- endif -%}
{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{% endif %}
""",
    "header": """{%- set loop_messages = messages %}
{%- for message in loop_messages %}
    {%- set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}
    {%- if loop.index0 == 0 %}
        {%- set content = bos_token + content %}
    {%- endif %}
    {{- content }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}""",
    "inst": """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set ns = namespace(last=-1, n=0) %}
{%- for message in loop_messages | selectattr('role', 'equalto', 'user') %}
    {%- set ns.n = ns.n + 1 %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('After the optional system message, conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {%- if loop.last and system_message is defined %}
            {{- '[INST] ' + system_message + '\\n\\n' + message['content'] + '[/INST]' }}
        {%- else %}
            {{- '[INST] ' ~ message.content ~ '[/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {% generation %}{{- ' ' + message['content']|trim + eos_token}}{% endgeneration %}
    {%- else %}
        {{- raise_exception('Only user and assistant roles are supported, not ' + message.role) }}
    {%- endif %}
{%- endfor %}""",
    "turns": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
""",
    "tags": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    "thinking": """{%- macro render(m, last=false) -%}
{{- '<|im_start|>' + m.role + '\\n' }}{{ m.content.lstrip('\\n') if last else m.content }}{{ '<|im_end|>\\n' }}
{%- endmacro -%}
{%- if tools %}{{- 'tools' }}{% elif tools is not none %}never{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in message.content %}
                {%- set reasoning_content = message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set message = dict(role='assistant', content=message.content.split('</think>')[-1].lstrip('\\n')) %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or (not loop.last and reasoning_content)) %}
            {{- '<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- render(message, last=loop.last) }}
    {%- else %}
        {{- render(message) }}
    {%- endif %}
    {%- if loop.previtem is defined and loop.previtem.role == 'user' and loop.nextitem is not defined %}{{ '(end)' }}{% endif %}
{%- endfor %}
{%- if enable_thinking is defined and enable_thinking is false %}{{- 'off' }}{%- endif %}""",
    "tabs": """{{- bos_token -}}
{%- set ns = namespace(system="") -%}
{%- if messages[0]["role"] == "system" -%}
\t{%- set ns.system = messages[0]["content"] -%}
\t{%- set messages = messages[1:] -%}
{%- endif -%}
{%- if tools -%}
\t{%- for tool in tools -%}
\t\t{%- set ns.system = ns.system + ("\\n" if ns.system else "") + (tool if tool is string else tool | tojson) -%}
\t{%- endfor -%}
{%- endif -%}
{%- if ns.system -%}
\t{{- "<|im_start|>system\\n" + ns.system + "<|im_end|>\\n" -}}
{%- endif -%}
{%- for message in messages -%}
\t{{- "<|im_start|>" + message["role"] + "\\n" -}}
\t{%- set content = message["content"] -%}
\t{%- if content is not string -%}
\t\t{%- set content = content | tojson -%}
\t{%- endif -%}
\t{%- if message["role"] == "tool" -%}
\t\t{%- set content = "<|tool_response_start|>" + content + "<|tool_response_end|>" -%}
\t{%- endif -%}
\t{{- content + "<|im_end|>\\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
\t{{- "<|im_start|>assistant\\n" -}}
{%- endif -%}
""",
}

# One thing each; a template and what is rendered with it, or a list of messages.
ONE = [
    # white space
    "a\n{% if true %}\n  b\n{% endif %}\nc\n",
    "a\n   {% if true %}b{% endif %}   \nc\n\n",
    "  {%- if true -%}  b  {%- endif -%}  c",
    "x  {{- 1 -}}  y {{+ 2 }} z",
    "  {%+ if true %} b {%+ endif +%}\nc",
    "a {# a comment #} b\n{# its own line #}\nc {#- stripped -#} d",
    "  {# first #}\n  {{ 1 }}\n{{ 2 }}\n",
    "\r\na\r\n{% if true %}\r\nb{% endif %}\r",
    "{{ 1 }}\n{% set x = 2 %}\n  {{ x }}  \n",
    "\u00a0\u2003{%- if true %} \u3000 b{% endif -%}\u2028c",
    "{% if true %}{% endif %}  {% if true %}\n  {% endif %}x",
    "{{ '}}' }}{{ '%}' }}{{ {'a': {'b': 1}}['a']['b'] }}",
    # literals
    r"""{{ 'a\n\t\\\'\"b' }}{{ "it's \u00e9\x41\U0001F600 \q" }}{{ 'a' 'b' "c" }}""",
    "{{ 1 }} {{ 1.5 }} {{ 1e3 }} {{ 2.0 }} {{ 1e-7 }} {{ 123456789012345678.0 }} {{ true }} {{ none }} {{ None }} {{ False }} {{ 0.1 + 0.2 }}",
    "{{ [] | length }}{{ [1, 2,] | length }}{{ (1,) | length }}{{ () | length }}{{ {} | length }}{{ {'a': 1, 'b': 2,} | length }}",
    # operators
    "{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}",
    "{{ 'a' ~ 1 ~ none ~ 1.5 ~ true }} {{ 'ab' * 3 }} {{ 1 + true }} {{ 'x' + 'y' ~ 'z' + 'w' }}",
    "{{ (1, 2) + (3,) == (1, 2, 3) }} {{ [1] + [2] == [1, 2] }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 1 }} {{ none == false }} {{ {'a': 1} == {'a': 1.0} }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 'é' > 'z' }} {{ 2 >= 2 }} {{ 1 != 2 }} {{ not 1 == 2 }} {{ 3 > 2 == true }}",
    "{{ 'a' in 'cat' }} {{ 'x' not in 'cat' }} {{ 2 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ '' in '' }} {{ 'x' in nothing }}",
    "{{ 1 and 0 }} {{ 1 and 'x' }} {{ '' or 'y' }} {{ 0 or none or 3 }} {{ not '' }} {{ not not 2 }} {{ 1 if 0 else 2 }} {{ 'z' if false }}|{{ 1 if true else nothing.x }}",
    "{{ 1 + 2 | string ~ 'x' if false else 'ok' }} {{ ('a' + 'b ') | trim | upper }} {{ 'a' + ' b ' | trim }} {{ -3 | abs }}",
    "{{ nothing }}|{{ nothing is defined }}|{{ nothing == other }}|{{ nothing | length }}|{{ nothing | default('d') }}|{{ nothing ~ 'x' }}|{% for x in nothing %}x{% endfor %}",
    # parts
    "{{ 'héllo'[1] }} {{ 'héllo'[-1] }} {{ 'héllo'[1:3] }} {{ 'héllo'[::-1] }} {{ 'héllo'[-3:] }} {{ 'hello'[10:] }}| {{ 'hello'[:-10] }}| {{ 'hello'[4:0:-2] }}",
    "{{ [1, 2, 3][-1] }} {{ [1, 2, 3][5] is defined }} {{ ([1, 2, 3][1:] | join(',')) }} {{ [[1, 2], 3].0.1 }} {{ {'a': 1}.a }} {{ {'a': 1}['b'] is defined }} {{ none.x is defined }}",
    "{{ {'items': 5}['items'] }} {% for k, v in {'a': 1, 'b': [2]}.items() %}{{ k }}={{ v | tojson }};{% endfor %} {{ {'a': 1}.keys() | list | join }} {{ {'a': 1}.values() | join }} {{ {'a': 1}.get('a') }} {{ {'a': 1}.get('z') }} {{ {'a': 1}.get('z', 'w') }}",
    # filters
    "{{ '  x y  ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ 'aBc é' | upper }}|{{ 'ÀB' | lower }}|{{ 'hello WORLD' | capitalize }}|{{ 'hello wORLD' | title }}",
    "{{ 'aaa' | replace('a', 'b') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'abc' | replace('', '-') }} {{ 5 | replace('5', '6') }}",
    "{{ [1, 'a', none, true, 1.5] | tojson }} {{ {'a': [1, {'b': '<é\"\\\\\\n>'}], 'c': {}} | tojson }} {{ 'x' | tojson }}\n{{ {'a': [1, 2], 'b': {}, 'c': []} | tojson(indent=2) }}",
    "{{ [1, 2, 3] | first }} {{ [1, 2, 3] | last }} {{ 'abc' | first }} {{ 'abc' | list | join('-') }} {{ 'abc' | reverse }} {{ [1, 2] | reverse | join }} {{ [] | first is defined }} {{ 'abc' | count }} {{ 'añ' | length }}",
    "{{ '42' | int + 1 }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ ' 3.7 ' | int }} {{ none | int }} {{ 1 | string + 'a' }} {{ none | default('x') }} {{ none | default('x', true) }} {{ '' | d('e', boolean=true) }}",
    "{{ messages | map(attribute='role') | join(', ') }} {{ ['a', 'b'] | map('upper') | join }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'eq', 'user') | map(attribute='content') | join }} {{ [1, 2, 3, 4] | select('odd') | join }} {{ [0, 1, ''] | select | list | length }} {{ [1, 2] | reject('in', [1]) | join }} {{ messages | selectattr('missing') | list | length }} {{ messages | map(attribute='missing', default='-') | join }} {{ [1, 1, 2] | unique | join }}",
    "{% for k, v in {'x': 1} | items %}{{ k }}{{ v }}{% endfor %}{{ '<b>' | safe }}",
    # tests
    "{{ 'a' is string }} {{ 1 is string }} {{ {} is mapping }} {{ [] is mapping }} {{ [] is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ [] is sequence }} {{ {} is sequence }} {{ 1 is number }} {{ true is number }} {{ true is boolean }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ nothing is string }} {{ nothing is iterable }}",
    "{{ true is true }} {{ 1 is true }} {{ false is false }} {{ none is none }} {{ nothing is none }} {{ 3 is odd }} {{ 3 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is eq 1 }} {{ 1 is ne 1 }} {{ 'a' is in ['a'] }} {{ 1 is lt 2 }} {{ 1 is ge(2) }} {{ 1 is not none and 2 is defined }} {{ 'x' is not string or true }}",
    # methods
    "{{ ' x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ '\\n\\na\\n'.lstrip('\\n') }}|{{ 'abc--'.rstrip('-c') }}|{{ '\\u00a0a\\u3000'.strip() }}|{{ 'éaé'.strip('é') }}",
    "{{ 'a,b,,c'.split(',') | tojson }} {{ ' a  b c '.split() | tojson }} {{ 'a b c '.split(' ', 1) | tojson }} {{ ' a b  c '.split(none, 1) | tojson }} {{ ''.split(',') | tojson }} {{ ''.split() | tojson }} {{ 'a--b'.split('--')[-1] }} {{ 'a\\nb\\r\\nc\\n'.splitlines() | tojson }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith('') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'aXa'.replace('a', 'b') }} {{ 'aXa'.replace('a', 'b', 1) }} {{ 'aé'.upper() }} {{ 'ÉA'.lower() }} {{ 'ab cd'.title() }} {{ 'AB'.capitalize() }} {{ ','.join(['a', 'b']) }} {{ 'héllo'.find('l') }} {{ 'x'.find('y') }} {{ 'banana'.count('an') }} {{ '12'.isdigit() }} {{ 'ab'.removeprefix('a') }} {{ 'ab'.removesuffix('b') }}",
    # statements
    "{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x is odd %}{{ loop.index }}:{{ x }}{{ loop.last }} {% else %}none{% endfor %}{% for x in [] %}x{% else %}empty{% endfor %}",
    "{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %} {% for x in range(2, 8, 3) %}{{ x }}{% endfor %} {% for x in range(3, 0, -1) %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 5 %}{% endif %}{{ x }}",
    "{% set ns = namespace(a=1, b='x') %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% set ns.c = i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.d is defined }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c %}x{{ a }}y {% endset %}[{{ c }}]{% set d | upper | trim %} x{{ a }}y {% endset %}[{{ d }}]{% for a, (b) in [[3, 4]] %}{{ a }}{% endfor %}" .replace(", (b)", ", b"),
    "{% macro f(a, b='B', c=a) %}<{{ a }}{{ b }}{{ c }}{{ x }}>{% endmacro %}{% set x = 9 %}{{ f(1) }}{{ f(1, 2) }}{{ f(1, c=3) }}{{ f(a='q') | upper }}{{ f() }}",
    "{% macro down(n) %}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(5) }}",
    "{% if false %}a{% elif 0 %}b{% elif 1 %}c{% else %}d{% endif %}{% if '' %}{% else %}e{% endif %}",
    "{% for a in [1, 2] %}{% for b in 'xy' %}{{ loop.index }}{{ a }}{{ b }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for m in messages %}{% generation %}{% set z = 1 %}{{ m.role }}é{% endgeneration %}{{ z is defined }}{% endfor %}",
    "{% generation %}\n{% for m in messages %}\n{{ m.content }}\n{% endfor %}\n{% endgeneration %}\nend",
    "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ bos_token }}{{ pad_token is defined }}",
    "{% if 'x' in custom %}{{ custom.x }}{% endif %}{{ messages[0].role == 'user' and messages[0]['content'] | length > 3 }}",
    # errors of both
    "{{ raise_exception('no: ' ~ messages[0].role) }}",
    "{{ nothing.x }}",
    "{{ 'a' + 1 }}",
    "{{ 1 // 0 }}",
    "{% for x in 5 %}{% endfor %}",
    "{{ nothing() }}",
    "{% set messages[0].x = 1 %}",
    "{{ 'a' < 1 }}",
    "{% if x %}",
    "{{ x",
    "{{ 'x }}",
    "{% for %}{% endfor %}",
    "{% endif %}",
    "{{ [1, 2 }}",
    "{# no end",
    "{{ 'a'.split('') }}",
    "{{ a b }}",
    "{{ }}",
    "{% break %}",
    # orders, sums, indents
    "{{ [3, 1, 2.5] | sort | join(',') }} {{ ['b', 'A', 'c', 'a'] | sort | join }} {{ ['b', 'A'] | sort(case_sensitive=true) | join }} {{ ['b', 'A', 'a', 'B'] | sort(reverse=true) | join }} {{ messages | sort(attribute='role') | map(attribute='role') | join(',') }} {{ 'cab' | sort | join }}",
    "{% for k, v in {'b': 1, 'A': 3, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %} {% for k, v in {'b': 1, 'a': 2, 'c': 0} | dictsort(by='value', reverse=true) %}{{ k }}{% endfor %} {% for k, v in {'b': 1, 'A': 2} | dictsort(true) %}{{ k }}{% endfor %}",
    "{{ [1, 2, 3] | sum }} {{ [1, 2.5] | sum }} {{ messages | map(attribute='content') | map('length') | sum }} {{ [{'n': 2}, {'n': 3}] | sum(attribute='n') }} {{ [[1], [2, 3]] | sum(start=[]) | join }} {{ [] | sum }}",
    "{{ [1, 5, 2] | max }} {{ [4, 1, 5] | min }} {{ [] | max is defined }} {{ ['b', 'C', 'a'] | max }} {{ ['b', 'C', 'a'] | min(case_sensitive=true) }} {{ [{'n': 2}, {'n': 3}] | max(attribute='n') | tojson }} {{ ['a', 'A'] | max }}",
    "{{ '1.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ ' 2e3 ' | float }} {{ 'x' | float(7) }} {{ none | float }}",
    "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb\n' | indent(2, first=true, blank=true) }}|{{ 'a\nb' | indent('> ') }}|{{ '' | indent(3, true) }}|{{ 'a\r\nb' | indent(1) }}",
    # forms of JSON, keys that are no texts
    "{{ {'b': 1, 'a': [1.5, none, 'é😀\n\x7f']} | tojson(ensure_ascii=true) }} {{ 'é' | tojson(true) }} {{ 'é' | tojson(false) }} {{ {'b': 1, 'a': {'d': 2, 'c': 3}} | tojson(sort_keys=true) }} {{ [1, {'a': 2}] | tojson(separators=(',', ':')) }}\n{{ [1, {'b': 2, 'a': []}] | tojson(indent=1, separators=(' ;', ' = ')) }} {{ [1] | tojson(false, 2) }} {{ [1] | tojson(indent=none) }}",
    "{% set d = {0: 'zero', 512: 'k', true: 'yes', none: 'no', 1.5: 'x', 'a': 5} %}{{ d[0] }}{{ d[512] }}{{ d[1] }}{{ d[none] }}{{ d[1.5] }}{{ d['a'] }}{{ d[7] is defined }}{{ 512 in d }}{{ 'b' in d }}{{ 512.0 in d }} {{ d | tojson }} {{ d.get(512) }} {{ d | length }}",
    "{% set ns = namespace(step=none) %}{% for k, v in {0: 0, 4096: 1024, 512: 128} | dictsort %}{{ k }}:{{ v }} {% if ns.step is none and 300 <= k %}{% set ns.step = v %}{% endif %}{% endfor %}{{ ns.step }}",
    "{{ {1: 'a', 'b': 2} | tojson(sort_keys=true) }}",
    "{{ [1, 'a'] | sort }}",
    "{{ [1] | tojson(separators=',') }}",
    # letters and lines of other kinds
    "{{ \"they're here (so-called) a_b 3x\" | title }} {{ 'straße' | upper }} {{ 'ßa' | capitalize }} {{ \"they're ßx\".title() }} {{ 'a\\x0bb\u2028c\u0085d\\r\\ne\\n'.splitlines() | join('+') }}",
]


def record(template, messages, prompt, name, more={}):
    """As apply_chat_template does it; `more`: tools, and other variables of the template."""
    case = {"name": name, "template": template, "messages": messages, "add_generation_prompt": prompt, "tokens": TOKENS}
    if more or "strftime_now" in template:
        case.update(more=more, now=NOW)
    try:
        texts, marks = render_jinja_template(conversations=[_normalize_chat_messages(messages)], chat_template=template,
                                             return_assistant_tokens_mask="{% generation" in template,
                                             add_generation_prompt=prompt, **{"tools": None, "documents": None, **more}, **TOKENS)
        case["text"] = texts[0]
        case["marks"] = [list(m) for m in marks[0]] if marks else []
    except Exception as e:
        case["error"] = type(e).__name__ + ": " + str(e)
    return case


cases = []
for name, template in FAMILIES.items():
    for i, chat in enumerate(CHATS):
        cases.append(record(template, chat, i % 2 == 1, name))
think = [U, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nfour"}]
cases.append(record(FAMILIES["thinking"], think, False, "thinking"))
cases.append(record(FAMILIES["thinking"], think[:1] + [{"role": "assistant", "content": "four", "reasoning_content": "\nhm\n"}], True, "thinking"))
cases.append(record(FAMILIES["turns"], [{"role": "user", "content": [{"type": "text", "text": " a "}, {"type": "image"}]}], True, "turns"))
THOUGHTS = "{% for m in messages %}{{ m.thinking | default('-') }} {{ m.reasoning_content | default('-') }} {{ m.reasoning is defined }} {{ m | tojson }} {{ 'content' in m }}\n{% endfor %}"
cases.append(record(THOUGHTS, [{"role": "user", "content": None, "x": {"y": None}}, {"content": "a", "reasoning": "b", "role": "assistant", "tool_calls": None},
                               {"role": "assistant", "thinking": "c", "content": ""}, {"reasoning_content": "d", "thinking": "e", "role": "assistant"},
                               {"role": "assistant", "reasoning_content": None, "thinking": "f"}], True, "thoughts"))
with open(os.path.join(HERE, "harmony.jinja")) as f:
    HARMONY = f.read()
TOOLS = [{"type": "function", "function": {"name": "freeze", "description": "Freezes a «card»", "parameters": {"type": "object", "required": ["card", "how"], "properties": {
    "card": {"type": "string", "description": "Its number"}, "how": {"type": "string", "enum": ["now", "later"], "default": "now"},
    "days": {"type": "array", "items": {"type": "integer"}, "nullable": True, "default": [1, 2]}, "any": {"type": "array"}, "none": {},
    "both": {"type": ["object", "null"]}, "one": {"type": ["boolean"]}, "sure": {"type": "boolean", "default": False},
    "where": {"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}, "y": {"type": "array", "items": {"type": "object", "properties": {
        "a_long_name_for_a_thing": {"type": "string", "nullable": True}, "another_name": {"type": "string"}}}}}}, "free": {"type": "object"},
    "or": {"oneOf": [{"type": "string", "description": "a name"}, {"type": "number", "default": 3}], "default": "x"},
    "or_object": {"oneOf": [{"type": "object"}, {"type": "object"}]}}}}},
    {"type": "function", "function": {"name": "list", "description": "Lists cards", "parameters": {"type": "object", "properties": {}}}}]
CALL = {"role": "assistant", "content": None, "thinking": "look", "tool_calls": [{"type": "function", "function": {"name": "freeze", "arguments": {"card": "«4»", "n": [1, None]}}}]}
ANSWER = {"role": "tool", "name": "freeze", "content": {"done": True, "why": "<é>"}}
FINAL = {"role": "assistant", "content": "It is frozen.", "thinking": "say so", "tool_calls": None}
for i, (chat, more) in enumerate([([U], {}), ([U, A], {"reasoning_effort": "high"}), ([S, U, A, U], {"model_identity": "You are «I»."}), ([U, A, U, FINAL], {"tools": TOOLS}),
                                  ([{"role": "developer", "content": "Be kind."}, U, CALL, ANSWER, FINAL], {"tools": TOOLS, "builtin_tools": ["python"]}), ([U, CALL], {"tools": TOOLS[1:]}),
                                  ([U, CALL, ANSWER], {}), ([U, {**CALL, "content": "hm"}], {}), ([U, ANSWER], {}), ([U, {"role": "assistant", "content": "<|channel|>final<|message|>"}], {}),
                                  ([U, {"role": "assistant", "content": "x", "tool_calls": [{"name": "f", "arguments": "{}", "content_type": "text"}]}], {"builtin_tools": ["browser", "python"]}),
                                  ([U, FINAL, U, CALL, ANSWER], {})]):
    for prompt in (False, True):
        cases.append(record(HARMONY, chat, prompt, "harmony %d" % i, more))
cases.append(record(FAMILIES["tabs"], [S, U, {"role": "tool", "content": [{"ok": True, "n": 1.5}]}, {"role": "tool", "content": "<é>"}], True, "tabs"))
for i, template in enumerate(ONE):
    cases.append(record(template, CHATS[3], i % 2 == 0, "one %d" % i))
with open(os.path.join(HERE, "recorded.jsonl"), "w") as f:
    for case in cases:
        f.write(json.dumps(case, ensure_ascii=False) + "\n")
if len(sys.argv) > 1:
    for case in cases:
        if "error" in case:
            print(case["name"], case["error"][:100])
