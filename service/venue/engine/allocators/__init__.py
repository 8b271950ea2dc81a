"""Four allocators behind one interface. Everything is reserved at the start; nothing is allocated while matching.

Each module has ``STATE_WORDS`` and the same three functions, so that swapping one for another is changing an import
(``pool`` can also say how many slots are in use)::

    reset(state, at)                                      everything is free
    allocate(memory, state, at, size) -> position         0: no room, or no such size
    deallocate(memory, state, at, position, size)         give back what ``allocate`` gave for ``size``

``memory`` is an array of records or of int64 words. Positions and sizes are counted in its elements, and a block is
aligned as the elements are. Position 0 is never given out: it means "none". What an allocator knows of itself are
``STATE_WORDS`` words from ``at`` on of an int64 array that its owner keeps. Nothing is ever raised; giving back what
was not given out is a fault that nobody notices. For one thread at a time: that of the memory's owner.

Reserved memory costs address space only; its pages are touched when they are first used.
"""
