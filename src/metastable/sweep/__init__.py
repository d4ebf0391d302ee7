"""Many runs: what to compute, where it is kept, and who computes it.

`plan` expands a sweep into cells, `cells` computes one of them, `store` keeps them in one Zarr
store that survives anything, `execute` drives it all.
"""
