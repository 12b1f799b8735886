"""Recall: from a query to scored records."""
