"""The live page: a schedule to edit, its nest, pictures, counts, times, and the next steps.

A ``Session`` (``session.py``) is the page without a transport: requests in, messages out, both
JSON. One thread drives it. ``receive`` does what a client asks for, and ``work`` finds out a little
more about a state: its picture, its counts, one more step. So a request never waits longer than one
of these. The history is immutable (``history.py``); a state is a schedule, whose steps are its key.
Times come from the thread of ``measure.py``, which asks a child process of the tuner. ``edits.py``
reads the code that a page sends with an interpreter of its own.

Three things show it. ``server.py`` gives the session a worker thread beside the event loop.
``widget.py`` runs it in the notebook's own thread. ``share.py`` writes a file in which the messages
that a new client would get stand in the page. The files of ``static/``, one module together, draw
all three: they keep what they were told, and need no session to show it. Text reaches the page as
text; only nests are HTML, made by ``ir/html.py``.
"""
