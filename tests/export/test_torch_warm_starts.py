"""initialise writes into PyTorch modules, and training from there takes a tenth of the steps."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install '.[torch]'): warm starts are not tested here")
nn = torch.nn
SOLVED, RATE, SEEDS = 1e-8, 3e-3, 10


def module(dim, width, outputs, activation, seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(dim, width), activation, nn.Linear(width, outputs)).double()


def samples(dim, width, outputs, activation, seed):
    truth = lb.random_network(dim, width, activation, outputs, biases=0.5, rng=seed)
    x = np.random.default_rng(seed + 1000).normal(size=(2000, dim))
    return x, truth(x)


def test_module_gets_the_start_in_its_own_precision():
    x, y = samples(10, 5, 1, lb.relu, 0)
    model = module(10, 5, 1, nn.ReLU(), 0).float()
    weight = model[0].weight
    network = lb.initialise(model, lb.Samples(x, y))
    assert model[0].weight is weight  # an optimiser that holds the parameters trains the new values
    assert weight.dtype == torch.float32
    assert lb.compare(lb.from_torch(model), network).max_error < 1e-6


@pytest.mark.parametrize("model", [
    lambda: nn.Sequential(nn.Linear(10, 5, bias=False), nn.ReLU(), nn.Linear(5, 1)),
    lambda: nn.Sequential(nn.Linear(10, 5), nn.ReLU(), nn.Linear(5, 2)),
    lambda: nn.Sequential(nn.Linear(9, 5), nn.ReLU(), nn.Linear(5, 1)),
    lambda: nn.Sequential(nn.Linear(10, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1))])
def test_modules_of_another_shape_are_refused_and_left_alone(model):
    made = model()
    before = [parameter.detach().clone() for parameter in made.parameters()]
    with pytest.raises(lb.InvalidInput, match="The mod"):
        lb.initialise(made, lb.Samples(*samples(10, 5, 1, lb.relu, 0)))
    assert all(torch.equal(old, new) for old, new in zip(before, made.parameters(), strict=True))


def steps_until_solved(model, x, y, most):
    """Steps of Adam on all rows until the squared error is 1e-8 of the variance; `most` if that is not reached."""
    x, y = torch.from_numpy(x), torch.from_numpy(y).reshape(len(y), -1)
    optimiser, variance = torch.optim.Adam(model.parameters(), lr=RATE), y.var()
    for step in range(most):
        optimiser.zero_grad()
        loss = (model(x) - y).square().mean() / variance
        if loss.item() < SOLVED:
            return step
        loss.backward()
        optimiser.step()
    return most


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "width", "outputs", "slope"), [(10, 5, 1, 0.0), (12, 6, 2, 0.0), (15, 8, 1, 0.1)])
def test_training_takes_a_tenth_of_the_steps(dim, width, outputs, slope):
    """Medians over ten seeds. The default initialisation may go on for ten times the median from `initialise`."""
    activation, unit = lb.leaky_relu(slope), nn.LeakyReLU(slope) if slope else nn.ReLU()
    ours, theirs = [], []
    for seed in range(SEEDS):
        x, y = samples(dim, width, outputs, activation, seed)
        model = module(dim, width, outputs, unit, seed)
        lb.initialise(model, lb.Samples(x, y))
        ours.append(steps_until_solved(model, x, y, 2000))
    most = 10 * int(np.median(ours))
    for seed in range(SEEDS):
        x, y = samples(dim, width, outputs, activation, seed)
        theirs.append(steps_until_solved(module(dim, width, outputs, unit, seed), x, y, most))
    solved = sum(steps < most for steps in theirs)
    print(f"{dim}-{width}-{outputs}: {np.median(ours)} steps from initialise; {solved} of {SEEDS} by default within {most}")
    assert np.median(ours) < 2000
    assert np.median(theirs) >= most
