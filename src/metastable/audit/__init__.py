"""The data-ownership audit: was this model trained on protected data, and does it reproduce it?

`corpus` and `split` deal documents out, `plan` freezes the question, `target` is M, `generators`
are G, `collect` asks and keeps rows, `evidence`, `validity` and `verdict` judge them, `audit` is
the whole, `verify` checks what it left. Needs PyTorch.
"""
