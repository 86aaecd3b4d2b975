# softmax by hand.
# ask: anomaly
# cause: exp has overflowed to infinity
# cure: subtract the largest element first
# line: 9
import torch

scores = torch.tensor([1000.0, 1.0], requires_grad=True)
powers = scores.exp()
shares = powers / powers.sum()
shares[0].backward()
print(scores.grad)
