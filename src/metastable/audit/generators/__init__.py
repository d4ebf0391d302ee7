"""G: what is put before M so that it writes an item, in order of rising strength.

`prefix` hands over the item's first tokens; `discrete` searches a readable text; `soft` searches
vectors, one set for each item, or one for all (`shared`); `amortised` is a network from items to
vectors. Each states its budget: long enough, any of them makes M write what it has never seen.
"""
