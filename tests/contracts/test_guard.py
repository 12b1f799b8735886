"""A contract cannot be weakened in silence."""

import pytest

from memkit_core.testing import (
    EmbedderContract,
    KeywordIndexContract,
    RecordStoreContract,
    VectorIndexContract,
)


def check(contract):
    contract().test_no_contract_test_is_replaced()


@pytest.mark.parametrize(
    ("contract", "name"),
    [
        (RecordStoreContract, "test_close_twice"),
        (RecordStoreContract, "test_best_first"),
        (KeywordIndexContract, "test_best_first"),
        (VectorIndexContract, "test_close_twice"),
        (EmbedderContract, "test_no_texts_are_no_rows"),
    ],
)
class TestGuard:
    def test_a_plain_subclass_passes(self, contract, name):
        """A subclass may add tests, fixtures and capabilities."""

        class Plain(contract):
            durable = False

            def test_of_its_own(self): ...

        class Deeper(Plain):
            pass

        assert hasattr(contract, name)
        check(Plain)
        check(Deeper)

    def test_a_replaced_test_is_found(self, contract, name):
        """A subclass that replaces or removes a contract test fails, however deep it is."""
        replaced = type("Replaced", (contract,), {name: lambda _: None})
        removed = type("Removed", (contract,), {name: None})
        deeper = type("Deeper", (replaced,), {})
        for weaker in (replaced, removed, deeper):
            with pytest.raises(AssertionError, match=name):
                check(weaker)

    def test_an_expected_failure_needs_its_reason(self, contract, name):
        """A contract test may be expected to fail, if the subclass says why."""

        @pytest.mark.xfail(reason="the engine cannot")
        def reasoned(_): ...

        @pytest.mark.xfail
        def silent(_): ...

        check(type("Reasoned", (contract,), {name: reasoned}))
        with pytest.raises(AssertionError, match=name):
            check(type("Silent", (contract,), {name: silent}))


@pytest.mark.parametrize(
    "contract", [RecordStoreContract, KeywordIndexContract, VectorIndexContract, EmbedderContract]
)
def test_no_part_of_a_contract_hides_another(contract):
    """No two parts of a contract have a test of one name: one of them would never run."""
    names = [
        name
        for part in contract.__mro__
        for name, member in vars(part).items()
        if name.startswith("test_") and callable(member)
    ]
    assert sorted(names) == sorted(set(names))
