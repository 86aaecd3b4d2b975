"""Actor-critic on a pole that is balanced on a cart, with a categorical policy."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

torch.manual_seed(543)


class CartPole:
    """The equations of motion of the pole, in plain Python."""

    def reset(self):
        self.state = (torch.rand(4) * 0.1 - 0.05).tolist()
        return self.state

    def step(self, action):
        x, v, angle, spin = self.state
        force = 10.0 if action else -10.0
        push = (force + 0.05 * spin**2 * math.sin(angle)) / 1.1
        fall = (9.8 * math.sin(angle) - math.cos(angle) * push) / (
            0.5 * (4.0 / 3.0 - 0.1 * math.cos(angle) ** 2 / 1.1)
        )
        speed = push - 0.05 * fall * math.cos(angle) / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * spin, spin + 0.02 * fall]
        return self.state, 1.0, abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 64)
        self.action_head = nn.Linear(64, 2)
        self.value_head = nn.Linear(64, 1)
        self.saved_actions, self.rewards = [], []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model, env = Policy(), CartPole()
optimizer = optim.Adam(model.parameters(), lr=1e-2)
eps = torch.finfo(torch.float32).eps


def finish_episode():
    returns, total = [], 0.0
    for reward in reversed(model.rewards):
        total = reward + 0.99 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_losses, value_losses = [], []
    for (log_prob, value, entropy), target in zip(model.saved_actions, returns):
        advantage = target - value.item()
        policy_losses.append(-log_prob * advantage - 0.01 * entropy)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([target])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:], model.saved_actions[:]
    return loss.item()


for episode in range(6):
    state, done, steps = env.reset(), False, 0
    while not done and steps < 100:
        probs, value = model(torch.tensor(state))
        policy = Categorical(probs)
        action = policy.sample()
        model.saved_actions.append((policy.log_prob(action), value, policy.entropy()))
        state, reward, done = env.step(action.item())
        model.rewards.append(reward)
        steps += 1
    print(f"episode {episode}: {steps} steps, loss {finish_episode():.3f}")
