"""The test that keeps a contract whole in its subclasses."""

from __future__ import annotations

_PACKAGE = __name__.rpartition(".")[0]


class ContractGuard:
    """Base of every contract: finds tests that a subclass replaced."""

    def test_no_contract_test_is_replaced(self) -> None:
        """A contract test is replaced only with `@pytest.mark.xfail(reason=...)`, which shows in the report."""
        own = type(self)
        contract = next(base for base in own.__mro__ if base.__module__.startswith(f"{_PACKAGE}."))
        names = [name for name in dir(contract) if name.startswith("test_")]
        replaced = [name for name in names if getattr(own, name) is not getattr(contract, name)]
        silent = [name for name in replaced if not _expects_failure(getattr(own, name))]
        assert not silent, f"{own.__name__} replaces {silent}; mark them @pytest.mark.xfail(reason=...)"


def _expects_failure(test: object) -> bool:
    marks = getattr(test, "pytestmark", ())
    return any(mark.name == "xfail" and mark.kwargs.get("reason") for mark in marks)
