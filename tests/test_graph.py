"""Tests of ``sl.graph`` and ``s.graph()``: nodes, edges, and their use by networkx."""

from __future__ import annotations

import pickle
from typing import Any

import networkx as nx
import pytest
import sympy

import schedlang as sl
from schedlang.errors import ComputeTypeError
from tests.graphs import chain, diamond, matmul, product, recurrence


def test_nodes_of_a_computation() -> None:
    g = matmul()
    made = sl.graph(g["C"])
    assert isinstance(made, nx.DiGraph)
    assert list(made.edges) == [("A", "D"), ("D", "C"), ("B", "C")]
    assert made.graph == {"inputs": ("A", "B"), "outputs": ("C",)}
    D, C, A = (made.nodes[name] for name in "DCA")
    assert D["tensor"] is g["D"] and D["tensors"] == (g["D"],) and D["name"] == "D"
    assert (D["shape"], D["dtype"], D["bytes"]) == ((64, 32), "float32", 64 * 32 * 4)
    assert (D["kind"], C["kind"], A["kind"]) == ("compute", "reduce", "placeholder")
    assert (A["work"], D["work"], C["work"]) == (0, 64 * 32, 2 * 64 * 48 * 32)
    assert [made.nodes[n]["output"] for n in made] == [False, False, False, True]
    assert "computed" not in C, "nothing is scheduled yet"


def test_edges_count_the_reads() -> None:
    A, B, C = chain(8)
    edge = sl.graph(C).edges["B", "C"]
    assert edge["text"] == ("B[i]", "B[i + 1]", "B[i + 2]")
    assert [str(read.indices[0]) for read in edge["accesses"]] == ["i", "i + 1", "i + 2"]
    assert all(read.tensor is B for read in edge["accesses"])
    assert (edge["reads"], edge["bytes"]) == (3 * 8, 4 * 10)


def test_boxes_cover_the_reads_and_stay_in_bounds() -> None:
    A = sl.placeholder((10, 20), name="A")
    part = sl.compute((4,), lambda i: A[i + 2, 3] + A[i + 4, 5], name="part")
    assert sl.graph(part).edges["A", "part"]["bytes"] == 4 * 6 * 3
    padded = sl.pad(A, 1, name="padded")
    edge = sl.graph(padded).edges["A", "padded"]
    assert (edge["reads"], edge["bytes"]) == (200, 4 * 200)
    table, where = sl.placeholder((50,), name="table"), sl.placeholder((4,), "int32", name="where")
    found = sl.graph(sl.compute((4,), lambda i: table[where[i]], name="found"))
    assert (
        found.edges["table", "found"]["bytes"] == 200
        and found.edges["where", "found"]["reads"] == 4
    )


def test_symbolic_sizes_give_expressions() -> None:
    M, N, K = (sl.var(name) for name in "MNK")
    made = sl.graph(product(M, N, K)[2])
    m, n, k = (sympy.Symbol(name, integer=True, positive=True) for name in "MNK")
    assert made.nodes["C"]["work"] == 2 * m * n * k and made.nodes["A"]["bytes"] == 4 * m * k
    assert made.edges["A", "C"]["reads"] == m * n * k and made.edges["A", "C"]["bytes"] == 4 * m * k


def test_the_work_of_the_nodes_is_that_of_the_computation() -> None:
    for g in (matmul()["C"], diamond()["E"], recurrence()["out"]):
        made = sl.graph(g)
        assert sum(work for _, work in made.nodes(data="work")) == sl.cost(g).flops


def test_a_scan_has_no_cycle() -> None:
    g = recurrence()
    for made in (sl.graph(g["out"]), g["s"].graph()):
        assert nx.is_directed_acyclic_graph(made)
        assert made.nodes["S"]["kind"] == "state" and made.nodes["S"]["scan"] == "R"
        assert made.nodes["R"]["kind"] == "scan"
        assert made.graph["inputs"] == ("X",)
        assert set(made.predecessors("R")) == {"first", "step"}


def test_equal_names_are_numbered_and_stages_keep_theirs() -> None:
    A = sl.placeholder((8,), name="T")
    B = sl.compute((8,), lambda i: A[i] + 1, name="T")
    C = sl.compute((8,), lambda i: B[i] + A[i], name="T")
    made = sl.graph(C)
    s = sl.schedule(C)
    assert list(made) == list(s.graph())
    stages = [n for n in made if made.nodes[n]["kind"] == "compute"]
    assert [s[name].op.outputs[0] for name in stages] == [B, C]
    (inputs,) = made.graph["inputs"]
    assert made.nodes[inputs]["tensor"] is A and inputs not in stages


def test_several_outputs_are_one_node() -> None:
    A = sl.placeholder((8,), name="A")
    low, high = sl.compute((8,), lambda i: (A[i] - 1, sl.cast(A[i] + 1, "float64")), name="band")
    C = sl.compute((8,), lambda i: low[i] + high[i], name="C")
    made = sl.graph([C, low])
    assert made.nodes["band"]["tensors"] == (low, high)
    assert made.nodes["band"]["bytes"] == 8 * (4 + 8) and made.nodes["band"]["output"]
    assert made.edges["band", "C"]["text"] == (f"{low.name}[i]", f"{high.name}[i]")
    assert made.edges["band", "C"]["bytes"] == 8 * (4 + 8)
    assert made.graph["outputs"] == ("C", "band")


def test_where_stages_are_computed() -> None:
    g = diamond()
    s, D, F, C, E = (g[name] for name in ("s", "D", "F", "C", "E"))
    s[D].compute_inline()
    outer, _ = s[E].split(g["j"], factor=8)
    s[F].compute_at(s[E], outer)
    s[F].set_scope("local")
    copy = s.cache_read(g["A"], "shared", [F])
    made = s.graph()
    nodes = made.nodes
    assert nodes["D"]["computed"] == "inline" and nodes["C"]["computed"] == "root"
    assert (nodes["F"]["computed"], nodes["F"]["at"]) == ("at", ("E", "j.outer"))
    assert nodes["F"]["scope"] == "local" and nodes["A"]["computed"] == "input"
    assert nodes[copy.name]["made"] and not nodes["F"]["made"]
    assert ("A", copy.name) in made.edges and (copy.name, "F") in made.edges
    assert ("A", "F") not in made.edges and nodes["C"]["at"] is None
    assert set(sl.graph(s).edges) == set(made.edges)
    assert set(sl.graph(s.outputs[0]).nodes) == set(nodes) - {copy.name}


def test_stages_of_rfactor_and_cache_write() -> None:
    A, k = sl.placeholder((8, 16), name="A"), sl.reduce_axis(16, name="k")
    C = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="C")
    s = sl.schedule(C)
    _, inner = s[C].split(k, factor=4)
    partial = s.rfactor(C, inner)
    made = s.graph()
    assert list(made.edges) == [("A", partial.name), (partial.name, "C")]
    assert made.nodes[partial.name]["kind"] == "reduce" and made.nodes[partial.name]["made"]
    assert made.nodes[partial.name]["work"] == 8 * 16


def test_a_stage_that_fits_nowhere_yet_is_at_root_as_in_print() -> None:
    g = diamond()
    g["s"][g["D"]].compute_at(g["s"][g["C"]], g["i"])
    assert g["s"].graph().nodes["D"]["computed"] == "root"


def test_networkx_reads_it() -> None:
    made = sl.graph(diamond()["E"])
    assert list(nx.topological_sort(made))[0] == "A"
    assert nx.dag_longest_path(made, weight="bytes") == ["A", "D", "C", "E"]
    assert nx.ancestors(made, "C") == {"A", "D"}
    left, right = nx.community.kernighan_lin_bisection(made.to_undirected(), weight="bytes", seed=0)
    assert left | right == set(made)
    plain = nx.relabel_nodes(made, str.lower)
    assert "e" in plain
    again = pickle.loads(pickle.dumps(made))
    assert list(again.edges) == list(made.edges)
    assert nx.node_link_data(made)["nodes"][0]["name"] == "A"


def test_a_graph_of_inputs_alone_and_refusals() -> None:
    A = sl.placeholder((3,), name="A")
    made = sl.graph(A)
    assert list(made) == ["A"] and made.nodes["A"]["output"] and made.graph["outputs"] == ("A",)
    wrong: Any
    for wrong in (None, 3, {"A": A}):
        with pytest.raises(ComputeTypeError, match=r"sl\.graph\("):
            sl.graph(wrong)


def test_a_graph_of_a_long_chain() -> None:
    T = sl.placeholder((4,), name="T0")
    for count in range(1500):
        T = sl.compute((4,), lambda i, t=T: t[i] + 1, name=f"T{count + 1}")
    made = sl.graph(T)
    assert len(made) == 1501 and nx.dag_longest_path_length(made) > 0
    assert sl.cost(T).flops == 4 * 1500
    assert T._repr_latex_() is None and T.latex().count("&=") == 1500


def test_conditions_on_one_axis_shrink_the_box_of_an_edge() -> None:
    A, k, n = sl.placeholder((8,), name="A"), sl.reduce_axis(8, name="k"), sl.var("n")
    C = sl.compute((8,), lambda i: sl.if_then_else(i < 4, A[i], 0.0), name="C")
    D = sl.compute((), lambda: sl.sum(A[k], axis=k, where=(k * 2 < 8) & (k >= 1)), name="D")
    E = sl.compute((8,), lambda i: sl.if_then_else(i < 4, A[i], A[i - 2]), name="E")
    for tensor, wanted in ((C, (4, 16)), (D, (3, 12)), (E, (8, 24))):
        edge = sl.graph(tensor).edges["A", tensor.name]
        assert (edge["reads"], edge["bytes"]) == wanted
    V = sl.placeholder((n,), name="V")
    F = sl.compute((n,), lambda i: sl.if_then_else(i < 4, V[i], 0.0), name="F")
    moved = sl.graph(F).edges["V", "F"]["bytes"]
    assert [moved.subs({n: size}) for size in (2, 4, 9)] == [8, 16, 16]
