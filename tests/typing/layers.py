"""Layers of networks, their functional forms, initial values, and helpers around modules."""

import retrograd as torch
from retrograd import Tensor, nn
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.utils import parameters_to_vector, parametrizations, vector_to_parameters
from retrograd.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Images(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, kernel_size=3, padding="same", bias=False), nn.BatchNorm2d(4),
            nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, (3, 3), stride=1, padding=1), nn.SiLU(),
            nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(8, classes)

    def forward(self, images: Tensor) -> Tensor:
        return F.log_softmax(self.head(self.features(images)), dim=-1)


class Sequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 5, num_layers=2, batch_first=True, dropout=0.1, bidirectional=True)
        self.gru = nn.GRU(10, 4)
        self.attention = nn.MultiheadAttention(4, num_heads=2, batch_first=True)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, nhead=2, dim_feedforward=8, batch_first=True), 1
        )

    def forward(self, tokens: Tensor) -> Tensor:
        h, (hidden, cell) = self.lstm(self.embedding(tokens))
        h, last = self.gru(h)
        mixed, _ = self.attention(h, h, h, need_weights=False)
        result: Tensor = self.encoder(mixed) + hidden.mean() + cell.mean() + last.mean()
        return result


def functional(x: Tensor, images: Tensor) -> Tensor:
    y = F.relu(x) + F.leaky_relu(x, negative_slope=0.1) + F.softplus(x, beta=2.0) + F.normalize(x)
    y = F.dropout(y, p=0.5, training=False) + F.layer_norm(x, (4,), eps=1e-6)
    z = F.conv2d(images, torch.ones(2, 1, 3, 3), stride=(1, 1), padding=1, groups=1)
    pooled, indices = F.max_pool2d(z, 2, return_indices=True)
    z = F.interpolate(F.avg_pool2d(z, 2) + pooled, scale_factor=2.0, mode="bilinear")
    loss = F.cross_entropy(y, torch.tensor([0, 1]), label_smoothing=0.1, reduction="sum")
    attended = F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)
    padded = F.pad(images, (1, 1, 0, 0), mode="constant", value=0.0)
    hot = F.one_hot(torch.tensor([0, 2]), num_classes=3)
    total = z.sum() + loss + attended.sum() + padded.sum() + hot.sum() + indices.sum()
    return total + F.linear(x, torch.ones(3, 4), bias=None).sum()


def losses(scores: Tensor, target: Tensor) -> Tensor:
    total = nn.CrossEntropyLoss(weight=torch.ones(4), ignore_index=-1)(scores, target)
    total = total + nn.NLLLoss(reduction="sum")(scores, target)
    total = total + nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))(scores, (scores > 0).float())
    total = total + nn.TripletMarginLoss(margin=0.5)(scores, scores + 1, scores - 1)
    return total + nn.SmoothL1Loss(beta=0.5)(input=scores, target=scores * 2)


def initial_values(model: nn.Module) -> None:
    def start(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight, gain=init.calculate_gain("relu"))
            init.zeros_(module.bias)

    model.apply(start)
    for name, module in model.named_modules():
        if name and isinstance(module, nn.Dropout):
            module.p = 0.0


def main() -> None:
    model = Images(3).eval()
    initial_values(model)
    images = torch.ones(2, 1, 8, 8)
    predictions = model(images).argmax(dim=1)
    sequences = Sequences().eval()
    tokens = pad_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])], batch_first=True)
    packed = pack_padded_sequence(torch.ones(3, 2, 4), [3, 1], enforce_sorted=False)
    unpacked, lengths = pad_packed_sequence(packed)
    vector = parameters_to_vector(model.parameters())
    vector_to_parameters(vector * 2, model.parameters())
    normed = parametrizations.weight_norm(nn.Linear(2, 2))
    modules = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(2, 2)})
    out = modules["b"](modules["a"](torch.ones(1, 2)))
    scores = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, -0.5, 1.0, 0.0]], requires_grad=True)
    print(predictions, sequences(tokens).shape, unpacked.shape, lengths, normed, out.shape)
    print(functional(scores, images), losses(scores, torch.tensor([0, 3])))


if __name__ == "__main__":
    main()
