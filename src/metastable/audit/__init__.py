"""The data-ownership audit: has this model swallowed protected data?

`corpus` and `split` deal documents out, `target` is M, `generators` are G, `collect` asks and keeps
rows, `evidence`, `validity` and `verdict` judge them, `audit` is the whole. Needs PyTorch.
"""
