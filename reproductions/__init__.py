"""Published figures, tables and theorems, made again: one folder a source, one file an entry.

An entry is a file with a literal `ENTRY = Entry(…)` and a function of the file's name that takes
its settings and returns a `Finding`. Files that begin with an underscore hold what entries share.
`metastable reproduce --list` lists the entries; `metastable.reproduce` performs them.
"""
