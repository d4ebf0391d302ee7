"""A web page on which the flow can be watched beside its theory: `metastable explore`.

The server computes in processes of its own and streams frames; the page in `static/` draws them.
No mathematics lives here: the numbers come from flows, observe, theory and comparison.
"""
