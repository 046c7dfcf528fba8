"""Rematerialisation on a bare graph: the least duration within a memory budget, order and recomputations free.

`rematerialise` is the way in. Modules that need CP-SAT (solver and those that call it) are imported in the
functions that use them: CP-SAT takes half a second to load, and most plans do without it.
"""
