"""Benchmarks: one file per question, ratios against a baseline of the same run on the same machine.

python -m bench                 all of them; writes docs/benchmarks.md and docs/benchmarks.json
python -m bench freshness       one of them; only its entries are written anew
python -m bench --quick         seconds instead of minutes: to see that it works, not to publish
"""
