"""Colours that people with any colour vision tell apart.

Sources: M. Okabe and K. Ito, "Color universal design" (2008), for kinds of things;
S. van der Walt and N. Smith, viridis (2015), for times and numbers.
"""

from __future__ import annotations

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
YELLOW, BLUE, RED, PURPLE = "#f0e442", "#0072b2", "#d55e00", "#cc79a7"
# kinds of things, in the order in which they are given out
KINDS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW, BLACK)
# things that matter less: text, lines, elements that nothing touched
SOFT, LINE, EMPTY = "#5b6472", "#c9ced6", "#eceff3"
TEXT = "#1c2230"
TIMES = "viridis"
