"""How fast memkit is, measured beside what it is made of: `python -m benchmarks` prints one table.

Every limit is a ratio to the raw engine, plain SQLite or plain NumPy in the same run, or a bound in
seconds or bytes that a user would notice. Data is made here from a seed.
"""
