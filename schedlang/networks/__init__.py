"""Whole networks: from a graph of many stages to fused parts; see docs/networks.md."""
