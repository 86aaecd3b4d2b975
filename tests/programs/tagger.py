"""A tagger: an LSTM in both directions and a conditional random field, decoded by Viterbi."""

import torch
import torch.nn as nn
import torch.optim as optim

START_TAG, STOP_TAG = "<START>", "<STOP>"
training_data = [
    ("the wall street journal reported today that apple corporation made money".split(),
     "B I I I O O O B I O O".split()),
    ("georgia tech is a university in georgia".split(), "B I O O O O B".split()),
]  # fmt: skip
word_to_ix = {}
for sentence, _ in training_data:
    for word in sentence:
        word_to_ix.setdefault(word, len(word_to_ix))
tag_to_ix = {"B": 0, "I": 1, "O": 2, START_TAG: 3, STOP_TAG: 4}


class BiLSTM_CRF(nn.Module):  # noqa: N801 - its name in the tutorial
    def __init__(self, vocab_size, tag_to_ix, embedding_dim, hidden_dim):
        super(BiLSTM_CRF, self).__init__()  # noqa: UP008 - as many programs have it
        self.hidden_dim, self.tag_to_ix = hidden_dim, tag_to_ix
        self.tagset_size = len(tag_to_ix)
        self.word_embeds = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim // 2, num_layers=1, bidirectional=True)
        self.hidden2tag = nn.Linear(hidden_dim, self.tagset_size)
        # Entry i, j is the score of going to i from j.
        self.transitions = nn.Parameter(torch.randn(self.tagset_size, self.tagset_size))
        self.transitions.data[tag_to_ix[START_TAG], :] = -10000
        self.transitions.data[:, tag_to_ix[STOP_TAG]] = -10000

    def init_hidden(self):
        return tuple(torch.randn(2, 1, self.hidden_dim // 2) for _ in range(2))

    def _start(self):
        scores = torch.full((1, self.tagset_size), -10000.0)
        scores[0][self.tag_to_ix[START_TAG]] = 0.0
        return scores

    def _forward_alg(self, feats):
        forward_var = self._start()
        for feat in feats:
            scores = forward_var + self.transitions + feat.view(-1, 1)
            forward_var = torch.logsumexp(scores, dim=1).view(1, -1)
        terminal_var = forward_var + self.transitions[self.tag_to_ix[STOP_TAG]]
        return torch.logsumexp(terminal_var, dim=1)[0]

    def _get_lstm_features(self, sentence):
        embeds = self.word_embeds(sentence).view(len(sentence), 1, -1)
        lstm_out, _ = self.lstm(embeds, self.init_hidden())
        return self.hidden2tag(lstm_out.view(len(sentence), self.hidden_dim))

    def _score_sentence(self, feats, tags):
        score = torch.zeros(1)
        tags = torch.cat([torch.tensor([self.tag_to_ix[START_TAG]], dtype=torch.long), tags])
        for i, feat in enumerate(feats):
            score = score + self.transitions[tags[i + 1], tags[i]] + feat[tags[i + 1]]
        return score + self.transitions[self.tag_to_ix[STOP_TAG], tags[-1]]

    def _viterbi_decode(self, feats):
        backpointers, forward_var = [], self._start()
        for feat in feats:
            best, pointers = (forward_var + self.transitions).max(dim=1)
            forward_var = (best + feat).view(1, -1)
            backpointers.append(pointers)
        terminal_var = forward_var + self.transitions[self.tag_to_ix[STOP_TAG]]
        best_tag_id = torch.argmax(terminal_var, dim=1).item()
        path_score, best_path = terminal_var[0][best_tag_id], [best_tag_id]
        for pointers in reversed(backpointers):
            best_tag_id = pointers[best_tag_id].item()
            best_path.append(best_tag_id)
        assert best_path.pop() == self.tag_to_ix[START_TAG]
        best_path.reverse()
        return path_score, best_path

    def neg_log_likelihood(self, sentence, tags):
        feats = self._get_lstm_features(sentence)
        return self._forward_alg(feats) - self._score_sentence(feats, tags)

    def forward(self, sentence):
        return self._viterbi_decode(self._get_lstm_features(sentence))


torch.manual_seed(1)
model = BiLSTM_CRF(len(word_to_ix), tag_to_ix, embedding_dim=5, hidden_dim=4)
optimizer = optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-4)
check = torch.tensor([word_to_ix[w] for w in training_data[0][0]], dtype=torch.long)
with torch.no_grad():
    print(model(check))
for epoch in range(12):
    for sentence, tags in training_data:
        model.zero_grad()
        sentence_in = torch.tensor([word_to_ix[w] for w in sentence], dtype=torch.long)
        targets = torch.tensor([tag_to_ix[t] for t in tags], dtype=torch.long)
        loss = model.neg_log_likelihood(sentence_in, targets)
        loss.backward()
        optimizer.step()
    if epoch % 4 == 0:
        print(epoch, f"{loss.item():.4f}")
with torch.no_grad():
    print(model(check))
