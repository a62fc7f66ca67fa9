"""The course: notebooks that are copied, solved and shown as slides, and exercises that check
themselves (docs/teaching.md).
"""
