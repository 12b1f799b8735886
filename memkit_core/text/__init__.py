"""Text as the stores and indexes see it: cleaning, normal forms, keyword terms."""
