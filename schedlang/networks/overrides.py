"""Changes that a user asks for: results that end a part, and stages that share one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schedlang.errors import NetworkError, explain
from schedlang.networks.dataflow import COPY, ELEMENTWISE, REDUCTION, Flow, Node
from schedlang.networks.grouping import Draft
from schedlang.networks.naming import Naming


def ends_of(naming: Naming, cut: Any) -> dict[Node, str]:
    """Return the nodes that ``cut`` names, stages and the last ones of layers, by those names.

    Raises :class:`~schedlang.errors.NetworkError` for an unknown name, and for a stage whose rows
    exist only inside of a scan.
    """
    return {naming.end("cut", name): name for name in named_stages("cut", cut)}


def fuse_parts(
    naming: Naming,
    drafts: Sequence[Draft],
    moved: Mapping[Draft, Iterable[Node]],
    fuse: Any,
    ends: Mapping[Node, str],
) -> list[Draft]:
    """Return the parts, in order, and merge those whose stages ``fuse`` names together.

    ``fuse`` has groups of names of stages and layers, and ``ends`` is what :func:`ends_of` returns.
    ``moved`` are the nodes computed where each part reads them. Raises
    :class:`~schedlang.errors.NetworkError` for unknown names, for parts that do not read each other
    or that would wait for each other, and for a result that has to end a part.
    """
    parts, copied = list(drafts), {draft: [*nodes] for draft, nodes in moved.items()}
    flow = naming.flow
    for group in fuse_groups(fuse):
        homes: dict[Draft, str] = {}
        for name in group:
            for draft, stage in _homes(name, naming, parts, copied).items():
                homes.setdefault(draft, stage)
        if len(homes) > 1:
            _check_adjacent(group, homes, flow, copied)
            parts = _merged(group, list(homes), parts, copied, flow)
    for end, name in ends.items():
        for draft in parts:
            inside = [n for n in (*draft.nodes, *copied[draft]) if _reads(n, end)]
            if end in draft.nodes and inside:
                raise NetworkError(
                    explain(
                        f"cut=[{name!r}] with fuse=[...]",
                        f"{inside[0].name}, which reads {end.name}, is fused with it",
                        f"Leave {name} out of cut=, or one of them out of fuse=.",
                    )
                )
    return parts


def named_stages(option: str, given: Any) -> list[str]:
    """Return the names that an option gives: a list of them, or a single one.

    Raises :class:`~schedlang.errors.NetworkError` for anything else.
    """
    if isinstance(given, str):
        return [given]
    if not isinstance(given, (list, tuple, set, frozenset)) or not all(
        isinstance(name, str) for name in given
    ):
        raise NetworkError(
            f"{option}={given!r}: give a list of names of stages or layers, as print(partition) "
            "shows them"
        )
    # the order of a set differs between processes
    return sorted(given) if isinstance(given, (set, frozenset)) else list(given)


def fuse_groups(fuse: Any) -> list[list[str]]:
    """Return the groups of names that ``fuse`` has: a list of lists, or a single group.

    >>> fuse_groups([["a", "b"], ["c", "d"]]), fuse_groups(["a", "b"]), fuse_groups([])
    ([['a', 'b'], ['c', 'd']], [['a', 'b']], [])
    """
    if isinstance(fuse, (list, tuple)) and all(isinstance(name, str) for name in fuse):
        return [named_stages("fuse", fuse)] if fuse else []
    if not isinstance(fuse, (list, tuple)):
        raise NetworkError(f"fuse={fuse!r}: give a list of lists of names of stages or layers")
    return [named_stages("fuse", group) for group in fuse]


def _homes(
    name: str, naming: Naming, drafts: Sequence[Draft], moved: Mapping[Draft, Sequence[Node]]
) -> dict[Draft, str]:
    """Return the parts that compute a stage, or a stage of a layer, each with such a stage.

    A stage that each reader computes for itself counts only if the name means nothing else.
    """
    stage = naming.stage(name)
    homes_of: dict[Draft, str] = {}
    several: list[Draft] = []
    for node in naming.nodes("fuse", name):
        homes = [draft for draft in drafts if node in draft.nodes or node in moved[draft]]
        if len(homes) == 1:
            homes_of.setdefault(homes[0], name if stage is not None else node.name)
        else:
            several = homes
    if not homes_of:
        listed = ", ".join(main_name(draft) for draft in several)
        raise NetworkError(
            explain(
                f"fuse=[{name!r}, ...]",
                f"{name} only moves elements, and is computed in each part that reads it: {listed}",
                "Name other stages of these parts.",
            )
        )
    return homes_of


def _check_adjacent(
    group: Sequence[str],
    homes: Mapping[Draft, str],
    flow: Flow,
    moved: Mapping[Draft, Sequence[Node]],
) -> None:
    """Raise unless each of some parts reads another of them, or is read by it."""
    drafts = list(homes)
    reached = {drafts[0]}
    for _ in drafts:
        reached |= {d for d in drafts if any(_linked(d, r, moved, flow) for r in reached)}
    apart = next((d for d in drafts if d not in reached), None)
    if apart is None:
        return
    others = ", ".join(homes[d] for d in drafts if d in reached)
    raise NetworkError(
        explain(
            f"fuse={list(group)}",
            f"the part of {homes[apart]} is not adjacent to the part of {others}: neither reads "
            "a result of the other",
            "Name the stages between them, too.",
        )
    )


def _linked(a: Draft, b: Draft, moved: Mapping[Draft, Sequence[Node]], flow: Flow) -> bool:
    return bool(_sources(a, moved, flow) & {*b.nodes} or _sources(b, moved, flow) & {*a.nodes})


def _sources(draft: Draft, moved: Mapping[Draft, Sequence[Node]], flow: Flow) -> set[Node]:
    """Return the nodes that a part reads."""
    nodes = (*draft.nodes, *moved[draft])
    return {flow.node_of[t] for n in nodes for t in n.reads if t in flow.node_of} - {*nodes}


def _reads(node: Node, source: Node) -> bool:
    return any(tensor in source.outputs for tensor in node.reads)


def _merged(
    group: Sequence[str],
    parts: Sequence[Draft],
    drafts: Sequence[Draft],
    moved: dict[Draft, list[Node]],
    flow: Flow,
) -> list[Draft]:
    """Return all parts, in order, with some of them as one."""
    import networkx as nx

    parts = sorted(parts, key=lambda draft: draft.number)
    main = max(parts, key=lambda draft: sum(n.evaluations for n in draft.nodes))
    whole = Draft(parts[0].number, main.kind, [n for p in parts for n in p.nodes])
    moved[whole] = list(dict.fromkeys(n for p in parts for n in moved[p]))
    left = [whole, *(draft for draft in drafts if draft not in parts)]
    home = {node: draft for draft in left for node in draft.nodes}
    graph = nx.DiGraph()
    graph.add_nodes_from(left)
    for draft in left:
        graph.add_edges_from((home[n], draft) for n in _sources(draft, moved, flow) if n in home)
    if not nx.is_directed_acyclic_graph(graph):
        between = [main_name(a) for a, _ in nx.find_cycle(graph, whole) if a is not whole]
        raise NetworkError(
            explain(
                f"fuse={list(group)}",
                f"part {between[0]} reads a result of one of them, and another one needs "
                f"{'its result' if len(between) == 1 else f'the result of {between[-1]}'}, so that "
                "neither could run first",
                f"Name {', '.join(between)} in the same group, too.",
            )
        )
    return list(nx.lexicographical_topological_sort(graph, key=lambda draft: draft.number))


def main_name(draft: Draft) -> str:
    """Return the name of a part: its product's, reduction's or scan's, else its last stage's.

    If a reduction serves a stage that goes over the same rows again, as in a softmax or a norm, the
    part has the name of the last stage, too.
    """
    nodes = sorted(draft.nodes, key=lambda node: node.index)
    mains = [node for node in nodes if node.kind == draft.kind]
    main = max(mains, key=lambda node: node.evaluations)
    again = draft.kind == REDUCTION and nodes[-1].results > main.results
    if draft.kind in (COPY, ELEMENTWISE) or again or (draft.kind == REDUCTION and len(mains) > 1):
        return nodes[-1].name
    return main.name
