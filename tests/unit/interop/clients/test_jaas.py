"""sasl.jaas.config."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.interop.clients.jaas import NoJaas, parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ('"a b"', "a b"),
        ("'a\"b'", 'a"b'),
        (r'"a\"b\\c"', r'a"b\c'),
        (r'"a\tb"', "a\tb"),
        ("plain", "plain"),
        ('";"', ";"),
        ('"="', "="),
        ("${file:/a:b}", "${file:/a:b}"),
        ('"${file:/a:b}"', "${file:/a:b}"),
    ],
)
def test_options_are_read(written: str, password: str) -> None:
    """In quotes of either kind or without, with escapes, over several lines."""
    login = parse_jaas(f'  {MODULE} required\n  username="me"\n  password={written} ;')

    assert (login.module, login.options) == ("PlainLoginModule", {"username": "me", "password": password})


def test_only_the_first_module_counts() -> None:
    """Kafka takes one login module; what a file has behind it does not matter."""
    assert parse_jaas(f"{MODULE} REQUIRED a=b; Other required c=d;").options == {"a": "b"}


@pytest.mark.parametrize("text", ["", MODULE, f"{MODULE} maybe;", f"{MODULE} required a;", f'{MODULE} required a="b'])
def test_what_is_broken_is_refused(text: str) -> None:
    """The reason never repeats what was given."""
    with pytest.raises(NoJaas) as caught:
        parse_jaas(text)

    assert not text or text not in str(caught.value)


@given(st.text(max_size=30))
def test_any_text_ends_in_a_login_or_a_reason(text: str) -> None:
    """No text makes the reader fail otherwise, or take for ever."""
    with contextlib.suppress(NoJaas):
        assert parse_jaas(f"{MODULE} required password={text}").module == "PlainLoginModule"
