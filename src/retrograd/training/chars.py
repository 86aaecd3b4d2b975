"""The ``chars`` task: a small GPT that writes text character by character.

Everything here is written in PyTorch's names and takes the library as an argument, so that the
same code runs on either.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar

import retrograd
from retrograd._errors import UserError, one_line

TEST_WINDOWS = 64  # of the held-out text, evenly spread: enough for a steady figure


class Chars:
    """Windows of a text in batches, a model, its loss, and its score on the end of the text."""

    files: ClassVar[dict[str, str]] = {
        "sample.txt": "what the model writes", "vocabulary.json": "the characters it knows",
    }  # fmt: skip

    def __init__(self, torch: Any, settings: dict[str, Any]) -> None:
        self._torch, self._settings = torch, settings
        data, context = settings["data"], settings["model"]["context"]
        text = own_sources() if data["file"] is None else read(Path(data["file"]))
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()
        self.vocabulary = sorted(set(text))
        held_out = max(int(len(text) * data["test_share"]), context + 1)
        count = len(text) - held_out
        if count < context + 2:
            raise UserError(
                f"{data['file']} has only {len(text):,} characters: too few for windows of "
                f"{context} (model.context) to train and to test on"
            )
        codes = encoded(torch, text, self.vocabulary)
        self.about = {"characters": count, "held out": held_out,
                      "different ones": len(self.vocabulary)}  # fmt: skip
        self._test = test_windows(torch, codes[count:], context)
        self.model = gpt(torch, len(self.vocabulary), **settings["model"])
        windows = Windows(codes[:count], context)
        generator = torch.Generator().manual_seed(settings["seed"])
        # Windows overlap, so an epoch is as many as it takes to see each character once.
        sampler = torch.utils.data.RandomSampler(
            windows, replacement=True, num_samples=max(1, count // context), generator=generator
        )
        self.loader = torch.utils.data.DataLoader(
            windows, batch_size=data["batch_size"], sampler=sampler, generator=generator
        )

    def loss(self, batch: Any) -> Any:
        """How badly the model foresees each next character of a batch."""
        seen, following = batch
        scores = self.model(seen)
        return self._torch.nn.functional.cross_entropy(
            scores.reshape(-1, scores.shape[-1]), following.reshape(-1)
        )

    def evaluate(self) -> dict[str, float]:
        """The loss on windows of the held-out text."""
        return {"test_loss": self.loss(self._test).item()}

    def closing(self) -> dict[str, str]:
        """Files to write at the end."""
        vocabulary = json.dumps(self.vocabulary, ensure_ascii=False)
        return {"sample.txt": self.sample() + "\n", "vocabulary.json": vocabulary + "\n"}

    def sample(self) -> str:
        """Text that the model writes."""
        wanted = self._settings["sample"]
        known = "".join(c for c in wanted["start"] if c in self.vocabulary)
        start = known or self.vocabulary[0]
        generator = self._torch.Generator().manual_seed(self._settings["seed"])
        codes = [self.vocabulary.index(c) for c in start]
        self.model.eval()
        codes = continued(self._torch, self.model, codes, wanted["length"],
                          self._settings["model"]["context"], wanted["temperature"],
                          generator)  # fmt: skip
        return "".join(self.vocabulary[code] for code in codes)


# -- text --------------------------------------------------------------------------------------


def read(path: Path) -> str:
    """A text file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(one_line(error)) from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not text in UTF-8: byte {error.start:,} is {error.object[error.start]:#x}"
        ) from None


def own_sources() -> str:
    """The sources of this package."""
    folder = Path(retrograd.__file__).parent
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))


def encoded(torch: Any, text: str, vocabulary: list[str]) -> Any:
    """A text as the indices of its characters in the vocabulary.

    >>> import retrograd
    >>> encoded(retrograd, "abca", ["a", "b", "c"])
    tensor([0, 1, 2, 0])
    """
    # Strings are translated much faster than lists.
    codes = text.translate({ord(c): i for i, c in enumerate(vocabulary)})
    numbers = bytearray(codes.encode("utf-32-le", "surrogatepass"))
    return torch.frombuffer(numbers, dtype=torch.int32).to(torch.int64)


class Windows:
    """The dataset of all windows of a text, each with the same moved on by one character."""

    def __init__(self, codes: Any, context: int) -> None:
        self._codes, self._context = codes, context

    def __len__(self) -> int:
        return len(self._codes) - self._context

    def __getitem__(self, start: int) -> tuple[Any, Any]:
        window = self._codes[start : start + self._context + 1]
        return window[:-1], window[1:]


def test_windows(torch: Any, codes: Any, context: int) -> tuple[Any, Any]:
    """A batch of windows spread evenly over the text."""
    windows = Windows(codes, context)
    count = min(TEST_WINDOWS, len(windows))
    pairs = [windows[i * (len(windows) - 1) // max(1, count - 1)] for i in range(count)]
    seen, following = zip(*pairs, strict=True)
    return torch.stack(seen), torch.stack(following)


# -- the model ---------------------------------------------------------------------------------


def gpt(torch: Any, vocabulary: int, layers: int, heads: int, width: int, context: int,
        dropout: float, tied: bool) -> Any:  # fmt: skip
    """Embeddings of characters and positions, blocks of attention to what came before, and scores
    for each next character."""
    nn = torch.nn
    functional = nn.functional

    class Attention(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.projections = nn.Linear(width, 3 * width)
            self.output = nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            split = self.projections(x).reshape(batch, length, 3, heads, width // heads)
            query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = functional.scaled_dot_product_attention(
                query, key, value, dropout_p=dropout if self.training else 0.0, is_causal=True
            )
            return self.output(mixed.transpose(1, 2).reshape(batch, length, width))

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.attention_norm = nn.LayerNorm(width)
            self.attention = Attention()
            self.mlp_norm = nn.LayerNorm(width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width),
                nn.Dropout(dropout),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.attention_norm(x))
            return x + self.mlp(self.mlp_norm(x))

    class GPT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(vocabulary, width)
            self.positions = nn.Embedding(context, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)
            for embedding in (self.characters, self.positions):
                nn.init.normal_(embedding.weight, std=0.02)
            if tied:
                self.head.weight = self.characters.weight

        def forward(self, codes: Any) -> Any:
            positions = torch.arange(codes.shape[1])
            x = self.characters(codes) + self.positions(positions)
            return self.head(self.norm(self.blocks(x)))

    return GPT()


def continued(torch: Any, model: Any, codes: list[int], length: int, context: int,
              temperature: float, generator: Any) -> list[int]:  # fmt: skip
    """Codes with ``length`` more, each drawn from what the model thinks may follow."""
    codes = list(codes)
    with torch.no_grad():
        for _ in range(length):
            scores = model(torch.tensor([codes[-context:]]))[0, -1]
            if temperature == 0:
                codes.append(int(scores.argmax()))
                continue
            chances = torch.softmax(scores / temperature, dim=-1)
            codes.append(int(torch.multinomial(chances, 1, generator=generator)))
    return codes
