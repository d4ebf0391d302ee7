"""`python -m metastable.cli`."""

from metastable.cli import main

main()
