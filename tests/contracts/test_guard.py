"""A contract cannot be weakened in silence."""

import pytest

from memkit_core.testing import RecordStoreContract, VectorIndexContract


def check(contract):
    contract().test_no_contract_test_is_replaced()


@pytest.mark.parametrize("contract", [RecordStoreContract, VectorIndexContract])
class TestGuard:
    def test_a_plain_subclass_passes(self, contract):
        """A subclass may add tests, fixtures and capabilities."""

        class Plain(contract):
            durable = False

            def test_of_its_own(self): ...

        class Deeper(Plain):
            pass

        check(Plain)
        check(Deeper)

    def test_a_replaced_test_is_found(self, contract):
        """A subclass that replaces or removes a contract test fails, however deep it is."""

        class Replaced(contract):
            def test_close_twice(self): ...

        class Removed(contract):
            test_close_twice = None

        class Deeper(Replaced):
            pass

        for weaker in (Replaced, Removed, Deeper):
            with pytest.raises(AssertionError, match="test_close_twice"):
                check(weaker)

    def test_an_expected_failure_needs_its_reason(self, contract):
        """A contract test may be expected to fail, if the subclass says why."""

        class Reasoned(contract):
            @pytest.mark.xfail(reason="the engine cannot")
            def test_close_twice(self): ...

        class Silent(contract):
            @pytest.mark.xfail
            def test_close_twice(self): ...

        check(Reasoned)
        with pytest.raises(AssertionError, match="test_close_twice"):
            check(Silent)
