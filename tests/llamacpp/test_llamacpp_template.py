"""Chat templates: rendered as the model expects, harmless where they mean harm."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jinja2", reason="jinja2 comes with llama-cpp-python")

import tiny_gguf
from ragweave.errors import ModelError
from ragweave.llamacpp.template import ChatTemplate

USER = [{"role": "user", "content": "hi"}]
SYSTEM = [{"role": "system", "content": "rules"}, *USER]


def rendered(source: str, messages=USER, **names: str) -> str:
    fragments = ChatTemplate(source, tiny_gguf.SPECIAL, **names).render(messages)
    return "".join(text for text, _ in fragments)


def test_the_usual_template() -> None:
    assert rendered(tiny_gguf.CHATML, SYSTEM) == (
        "<|im_start|>system\nrules<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_what_templates_of_real_models_use() -> None:
    source = (
        "{{- bos_token }}{%- for m in messages if m.role == 'user' %}{{ m.content | trim }}"
        "{%- if loop.last %}{% break %}{% endif %}{%- endfor %}"
        "{{ {'a': ['é']} | tojson }}{{ strftime_now('%Y') | length }}"
        "{%- set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}"
        "{{ ns.n }}{% generation %}{{ messages[0].content }}!{% endgeneration %}"
    )
    assert rendered(source, bos_token="<s>") == '<s>hi{"a": ["é"]}43hi!'


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{%- generation -%} a {%- endgeneration %} b", "a b"),
        (
            "{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %}{% endfor %}",
            "user",
        ),
        ("{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}", "21"),
        ("{% generation %}{% for a in range(3) %}{{ a }}{% endfor %}{% endgeneration %}", "012"),
    ],
)
def test_the_mark_of_the_models_own_words_is_read_over(source: str, expected: str) -> None:
    assert rendered(source) == expected


def test_a_template_without_system_role_gets_it_in_the_first_message() -> None:
    source = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    )
    assert rendered(source, SYSTEM) == "[user]rules\n\nhi"
    assert rendered(source, SYSTEM[:1]) == "[user]rules"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{% for a in range(10**9) %}x{% endfor %}",
        "{% for a in range(9000) %}{% for b in range(9000) %}{% endfor %}{% endfor %}",
        "{{ 'a' * 10**9 }}",
        "{{ 10 ** 10 ** 10 }}",
        "{% for a in range(9000) %}{{ 'a' * 9000 }}{% endfor %}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ self.__init__() }}{{ cycler.__init__.__globals__.os }}",
        "{{ undefined_name.attribute }}",
        "{{ 1 / 0 }}",
        "{{ messages[7].content }}",
        "{{ raise_exception('roles must alternate') }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for %}",
        "{% unknown %}",
        "{% generation %}",
        "{% generation %}{% for a in range(10**9) %}x{% endfor %}{% endgeneration %}",
        "{% for a in 'aaaaaaaaaa' * 900 %}{% for b in 'aaaaaaaaaa' * 900 %}{% endfor %}{% endfor %}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(99) }}",
        "{% for a in [[1]] recursive %}{{ loop(a) }}{% endfor %}",
        "{% set n = namespace(t='aaaaaaaa') %}{% for i in range(99) %}{% set n.t = n.t ~ n.t %}"
        "{% endfor %}",
        "{% set n = namespace(t='aaaaaaaa') %}{% for i in range(99) %}{% set n.t = n.t + n.t %}"
        "{% endfor %}",
        "{% set n = namespace(t='aaaaaaaa') %}{% for i in range(99) %}"
        "{% set n.t = n.t.replace('a', 'aa') %}{% endfor %}",
        "{% set n = namespace(t='aaaaaaaa') %}{% for i in range(99) %}"
        "{% set n.t %}{{ n.t }}{{ n.t }}{% endset %}{% endfor %}",
        "{% set n = namespace(t=[1]) %}{% for i in range(99) %}{% set n.t = n.t + n.t %}{% endfor %}",
        "{{ '%1000000000d' % 1 }}",
        "{{ 'a'.center(10**9) }}",
        "{{ 'a'.ljust(10**9) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ 'a' | center(10**9) }}",
        "{{ [1] | batch(10**9, 0) | list }}",
        "{{ 1.5 | round(10**9, 'ceil') }}",
        "{{ lipsum(10**6) }}",
        "{{ messages | tojson(indent=10**9) | length }}{{ raise_exception('x') }}",
        "{% for tool in tools %}{{ tool.name }}{% endfor %}",
        "{{ " + "(" * 400 + ")" * 400 + " }}",
    ],
)
def test_a_hostile_or_broken_template_is_a_clear_error(source: str) -> None:
    with pytest.raises(ModelError, match="chat template") as caught:
        rendered(source)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@given(
    st.lists(st.sampled_from([*tiny_gguf.SPECIAL, "\ue000", "\ue001", "0", "a ", "\n", "<|"])).map(
        "".join
    )
)
def test_control_tokens_in_messages_stay_text(content: str) -> None:
    messages = [{"role": "user", "content": content}]
    fragments = ChatTemplate(tiny_gguf.CHATML, tiny_gguf.SPECIAL).render(messages)
    whole = "".join(text for text, _ in fragments)
    assert whole == f"<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n"
    trusted = "".join(text for text, meant in fragments if meant)
    assert trusted.count("<|im_start|>") == 2
    assert trusted.count("<|im_end|>") == 1
    assert "<|endoftext|>" not in trusted


def test_a_template_is_told_values_of_its_own_but_never_other_messages() -> None:
    source = "{{ enable_thinking }} {{ messages[0].content }} {{ add_generation_prompt }}"
    fragments = ChatTemplate(source).render(USER, {"enable_thinking": False, "messages": []})
    assert fragments == [("False hi True", True)]


def test_a_template_that_wants_tools_says_so() -> None:
    with pytest.raises(ModelError, match="may expect tools"):
        rendered("{% for tool in tools %}{{ tool.name }}{% endfor %}")


def test_a_template_renders_alike_in_many_threads() -> None:
    template = ChatTemplate(tiny_gguf.CHATML, tiny_gguf.SPECIAL)
    with ThreadPoolExecutor(8) as pool:
        many = list(pool.map(lambda _: template.render(SYSTEM), range(64)))
    assert all(one == many[0] for one in many)
