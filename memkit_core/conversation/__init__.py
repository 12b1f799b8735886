"""Conversations: sessions of messages, and the windows that go back to a model."""
