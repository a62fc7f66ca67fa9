"""Lesson 14: a network trained with PyTorch becomes one Python module of fused kernels.

Import the module, read how it is divided into kernels, tune them, and look at where the time goes.
The result is a folder of Python that runs without PyTorch and without schedlang.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from lesson import digits, milliseconds

import schedlang as sl
from schedlang.errors import missing_extra

EPOCHS, BATCH, SECONDS = 8, 50, 12


def trained(x: np.ndarray, y: np.ndarray) -> Any:
    """Return a small convolutional network, trained on pictures of 8 by 8 pixels."""
    try:
        import torch
        from torch import nn
    except ImportError:
        raise SystemExit(missing_extra("PyTorch", "torch", "This lesson")) from None
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    pictures, labels = torch.from_numpy(x).reshape(-1, 1, 8, 8), torch.from_numpy(y)
    for epoch in range(EPOCHS):
        total = 0.0
        for part in torch.randperm(len(y)).split(BATCH):
            loss = nn.functional.cross_entropy(net(pictures[part]), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(part)
        print(f"epoch {epoch + 1}: loss {total / len(y):.3f}")
    return net.eval()


def main() -> None:
    x, y, unseen, truth = digits()
    module = trained(x, y)

    import torch

    torch.set_num_threads(2)
    pictures = unseen.reshape(-1, 1, 8, 8)
    model = sl.frontend.from_torch(module, torch.from_numpy(pictures))
    with tempfile.TemporaryDirectory() as folder:
        net = sl.network(model, name="digits", database=Path(folder) / "trials.jsonl")
        print(f"\n{net}\n")
        # batch norm, activation and bias are in the kernel of their convolution; its loops:
        kernel = net.kernels[0]
        print(kernel.schedule, "\n")

        with torch.inference_mode():
            expected = module(torch.from_numpy(pictures)).numpy()
        scores = net(pictures)
        np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-4)
        accuracy = float((scores.argmax(axis=1) == truth).mean())
        print(f"{accuracy:.1%} of {len(truth)} digits that it never saw are right.")
        assert accuracy > 0.95

        before = milliseconds(net, pictures)
        print(net.tune(timeout=SECONDS), "\n")
        after = milliseconds(net, pictures)
        np.testing.assert_allclose(net(pictures), expected, rtol=1e-3, atol=1e-4)
        with torch.inference_mode():
            eager = milliseconds(module, torch.from_numpy(pictures))
        for name, time in (("PyTorch", eager), ("sl.network", before), ("tuned", after)):
            print(f"{name:11} {time:7.3f} ms for {len(truth)} digits")

        print(f"\n{net.memory}\n\n{net.profile(pictures)}\n")
        shipped = net.save(Path(folder) / "shipped")
        print("shipped:", *sorted(file.name for file in shipped.iterdir()))


if __name__ == "__main__":
    main()

# Exercise: give sl.network cut=["layer_4"], a stage that the table shows. How many kernels are
# there then, and what does the profile say about the one that is new?
