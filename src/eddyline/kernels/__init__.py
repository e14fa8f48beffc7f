"""Inner loops, compiled with Numba: arrays in, arrays out. A kernel knows nothing of queries, SQL or Arrow, and allocates little;
what it means is said by the room that calls it, and a plain twin in `tests/oracles` says what it must give."""
