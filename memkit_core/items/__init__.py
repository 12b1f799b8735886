"""Items: JSON values by namespace and key, in a space of their own; what LangGraph's store is made of."""

from memkit_core.items.building import Item, NewItem
from memkit_core.items.items import ItemPage, Items
from memkit_core.items.names import value_key

__all__ = ["Item", "ItemPage", "Items", "NewItem", "value_key"]
