"""Record stores: where memory is kept for good."""
