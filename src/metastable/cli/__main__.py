"""`python -m metastable.cli`, the same as `python -m metastable`."""

from metastable.__main__ import main

main()
