"""What it meets: rows of several streams that belong together.

A stem keeps the rows of one stream that a later row may meet (stem.py), and finds them by the codes of their keys (keys.py).
"""
