"""A market of trades and thousands of rules over it, on Spark on this machine, for the terminal: `make demo`.

Rounds run on Spark's workers while a rule comes, one goes and a worker is killed. Then the alerts that were kept are compared
with those there must be, and the same rules run as a Spark broadcast join. `market` makes the trades, `rules` has the rules
over them, `show` is the order of events, `proof` and `comparison` judge it, `screen` prints.
"""
