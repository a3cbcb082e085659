"""A plain MLP in numpy: forward and backward pass by hand, and what each feedback rule hands to each site."""

import statistics

import numpy as np
from foreign_case import GROUP, Truth

ACTIVATIONS = {
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    # A step, straight through where the drive is small: no slope of the function, but the one that is declared.
    "sign": (np.sign, lambda z: (abs(z) <= 1).astype(float)),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(float)),
}


class NumpyMLP:
    """Sites are x and what each hidden layer hands on, after its activation; the last layer gives the logits."""

    def __init__(self, layers, activation="tanh"):
        self.weights = [array(layer.weight) for layer in layers]
        self.biases = [array(layer.bias) for layer in layers]
        self.activate, self.slope = ACTIVATIONS[activation]

    def forward(self, x):
        """(h_0 … h_L, pre-activations z_1 … z_L, logits) of one sample."""
        hiddens, drives = [x], []
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            drives.append(weight @ hiddens[-1] + bias)
            hiddens.append(self.activate(drives[-1]))
        return hiddens, drives, self.weights[-1] @ hiddens[-1] + self.biases[-1]

    def backward(self, error, drives, matrices):
        """What reaches h_0 … h_L where layer l sends its error back through `matrices[l]`, shaped like its weight."""
        arrived = [matrices[-1].T @ error]
        for matrix, drive in zip(reversed(matrices[:-1]), reversed(drives), strict=True):
            arrived.append(matrix.T @ (arrived[-1] * self.slope(drive)))
        return arrived[::-1]

    def truth(self, batches, credit=None):
        """The truth; `credit(network, hiddens, drives, error, target)` gives one vector per site."""
        norms, grads, cosines, right = [], [], [], []
        for inputs, targets in batches:
            for x, target in zip(array(inputs), targets.tolist(), strict=True):
                hiddens, drives, logits = self.forward(x.reshape(-1))
                shares = np.exp(logits - logits.max())
                error = shares / shares.sum() - (np.arange(len(logits)) == target)
                true = self.backward(error, drives, self.weights)
                norms.append([np.sqrt((h**2).sum()) for h in hiddens])
                grads.append([np.sqrt((g**2).sum()) / GROUP for g in true])
                right.append(float(logits.argmax() == target))
                if credit is not None:
                    given = credit(self, hiddens, drives, error, target)
                    cosines.append([cosine(a, g) for a, g in zip(given, true, strict=True)])
        return Truth(
            norms=columns(norms, statistics.median),
            grads=columns(grads, statistics.median),
            accuracy=statistics.fmean(right),
            alignment=columns(cosines, statistics.fmean) if cosines else None,
        )


def array(tensor):
    """In fp64."""
    return tensor.detach().double().numpy()


def columns(rows, reduce):
    """One number per site."""
    return [float(reduce(column)) for column in zip(*rows, strict=True)]


def cosine(a, g):
    """cos(a, g)."""
    return float(a @ g / np.sqrt((a**2).sum() * (g**2).sum()))


# What the rules hand on, each by its definition.


def feedback_alignment(matrices):
    """Every layer sends its error back through a matrix of its own."""
    fixed = [array(matrix) for matrix in matrices]
    return lambda network, hiddens, drives, error, target: network.backward(error, drives, fixed)


def sign_symmetry(scale=1.0):
    """Through the signs of the weights."""

    def credit(network, hiddens, drives, error, target):
        return network.backward(error, drives, [scale * np.sign(weight) for weight in network.weights])

    return credit


def direct_feedback(matrices):
    """The error of the output, sent to each hidden layer by its own matrix; h_0 gets what layer 1 sends on."""
    fixed = [array(matrix) for matrix in matrices]

    def credit(network, hiddens, drives, error, target):
        arrived = [matrix.T @ error for matrix in fixed]
        return [network.weights[0].T @ (arrived[0] * network.slope(drives[0])), *arrived]

    return credit


def random_targets(matrices):
    """The target itself, one-hot, in place of the error (DRTP)."""
    fixed = [array(matrix) for matrix in matrices]

    def credit(network, hiddens, drives, error, target):
        onehot = (np.arange(len(error)) == target).astype(float)
        arrived = [matrix.T @ onehot for matrix in fixed]
        return [network.weights[0].T @ (arrived[0] * network.slope(drives[0])), *arrived]

    return credit
