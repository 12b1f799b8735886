"""What happens to acknowledged records when processes, models, disks and clocks fail: `make faults`.

Each scenario runs against real files, with real processes where processes matter, and counts what was
acknowledged, what of it was lost and what came twice. `tests/core/test_faults.py` runs the same
scenarios in a short form.
"""
