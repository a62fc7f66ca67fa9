"""Advice for schedules: the legal next steps with their predicted effects, and explanations.

``explain.py`` says what is slow, from the findings of ``findings.py`` with their evidence.
``next_steps.py`` draws the schedules that one more step makes (``autotune/space.py``):
``candidates.py`` proposes steps (``steps.py``) on loops and places, ``new_stages.py`` and
``storage_candidates.py`` the rest. ``predicted.py`` estimates what each would change, and
``meanings.py`` says it for people who are new to schedules. ``refusals.py`` says which steps a
schedule refuses now, and why.
"""
