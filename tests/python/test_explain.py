"""`gpulend explain`: each code has its section, and each error leads there."""

from __future__ import annotations

import copy
import pickle
import re
import sys
import traceback

import gpulend
import pytest
from gpulend import explain
from gpulend._native import ERROR_CODES


def test_every_code_is_explained_once_and_under_its_name():
    """The page has the codes of the table, in their order, and no others."""
    heads = re.findall(r"^## (\d+) (\w+)$", explain.PAGE.read_text(), re.M)
    assert heads == [(str(code), name) for code, name, _, _ in ERROR_CODES]


@pytest.mark.parametrize("one", explain.explanations().values(), ids=lambda one: str(one.code))
def test_an_explanation_says_why_and_how_to_mend(one):
    """Whole sentences, and what it names of gpulend is there."""
    for text in (one.meaning, one.why, one.mend):
        assert text.endswith((".", "`.", '".')), text
        assert len(text) > 15
    for path in re.findall(r"`gpulend\.([\w.]+)", one.why + one.mend):
        found = gpulend
        for name in path.rstrip(".").split("."):
            found = getattr(found, name, None) or __import__(f"gpulend.{name}", fromlist=[name])
        assert found is not None


def test_a_code_is_found_by_number_by_name_and_by_class():
    """As an error shows it, as C spells it, and as Python raises it."""
    (by_number,) = explain.find("821")
    for name in ("ELEMENT_TYPE", f"GPULEND_{by_number.name}"):
        assert explain.find(name) == [by_number]
    assert by_number.kind == "SignatureError"
    assert by_number.builtins == ["RuntimeError", "TypeError"]
    assert by_number in explain.find("gpulend.SignatureError")
    assert explain.find("releasederror") == explain.find("500")


def test_what_is_no_code_is_refused_with_what_is_near():
    """A name that is nearly one is suggested."""
    with pytest.raises(LookupError, match="did you mean 'SignatureError'"):
        explain.find("SignatrueError")
    with pytest.raises(LookupError, match="without one all are listed"):
        explain.find("999")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python shows notes from 3.11 on")
def test_a_traceback_ends_with_how_to_read_more():
    """The text of the error itself stays as it was."""
    with pytest.raises(gpulend.NoDeviceError) as caught:
        gpulend.Device("gpu")
    error = caught.value
    assert "gpulend explain" not in str(error)
    shown = traceback.format_exception_only(error)
    assert shown[-1] == "`gpulend explain 901` says more\n"
    error.add_note("mine")
    assert traceback.format_exception_only(error)[-2:] == [shown[-1], "mine\n"]
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        # Some packages have exceptions pickled with the notes that were added.
        assert traceback.format_exception_only(twin)[1] == shown[-1]


def test_an_error_without_a_code_has_no_note():
    """Those that a program makes itself."""
    error = gpulend.Error("text")
    assert not hasattr(error, "__notes__")
    assert traceback.format_exception_only(error) == ["gpulend.exceptions.Error: text\n"]
