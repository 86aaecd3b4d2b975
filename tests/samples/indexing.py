"""Indexing in all its forms."""

from samples._words import calls

INDEXING = [
    *calls("""
        mat[?] <- 0; -1; 1, 2; 0, -1; :; ...; 1:; :, 1; :, 1:; ..., 0; 0, ...; None; None, 0
        mat[?] <- :, None; ..., None; 0, None, 1; ::2; :, ::2; -1:, -2:; 5:; 1:0; :-1, -3::2; True
        mat[?] <- False; None, ..., None; (); 0:2, 0:3; :, :; isc - 2; isc - 2, 1; ..., 1, None
        mat[?] <- slice(None, 1)
        cube[?] <- 0, 1, 1; :, 1; ..., 0; 1, :, ::2; :, -1, None; 0, ..., 1; 0, None, ..., 1, None
        cube[?] <- 1:, 0:2, 1
        mat[?] <- [0, 1]; [1, 1, 0]; [0, 1], [2, 0]; :, [2, 0]; rows, cols; rows; 0, [1, 2]; [-1]
        mat[?] <- back; :, at; ..., at; None, :, at; at32; :, iempty; iempty; []
        mat[?] <- torch.tensor([0, 1]), 1; rows, 1:; 1, at; [0, 1], None; None, [1, 0]
        mat[?] <- :, None, [2, 0]
        mat[?] <- k; ~k; knot; :, kv; [True, False]; mat > 0; ..., kv; 0, kv; torch.tensor(True)
        mat[?] <- ksc; k[:, 0]; k[:, 0], 1; k[:, 0], 1:; None, k; k[:, 2]; :, [True, False, True]
        cube[?] <- at[:2] - at[:2]; :, at; :, at, 1; [0, 1], :, [1, 0]; 0, :, [1, 0]; [1, 0], 0, :
        cube[?] <- :, [0, 2], [1, 0]; rows, cols; rows, :, rows; cube[..., 0] > 0; k; :, kv; k, 0
        cube[?] <- :, [0, 2], None, 1; [0, 1], ..., 1; [0], None, [1]; ..., [1, 0], :
        cube[?] <- 1, [0, 1], [1, 1]; :, :, rows; [1], 1:, [0]; ..., None, rows, :
        tran[?] <- 0; :, 1:; [1, 0]; k; ..., at
        none[?] <- :, 1; iempty; ..., None; kempty
        sc[?] <- ...; None; (); None, None; True; ksc; False
        i[?] <- 0; 1:, 0; k; [1, 0]
        vec[?] <- at; [0, 0, 0]; isc - 1; iv - 1; u8 > 2; 1:3; kv
        nan[?] <- k; 0; [1, 1]
        torch.stack([x for x in mat]); mat[at[:2] - at[:2], at[:2]]; mat[(0, 1)]; mat[[0, 1],]
        mat[1][2]; mat[:, 1:][0]
    """),
]  # fmt: skip
GROUPS = {"indexing": INDEXING}
ERRORS = [
    *calls("""
        mat[?] <- 2; -3; 0, 3; 0, 0, 0; [0, 2]; [0, -3]; :, [3]; k[:, :2]; kv; 1.5; 'a'; ::-1; ::0
        mat[?] <- f64; ..., 0, 0, 0; k, 0; [0, 1], [0, 1, 2]; 1.0:2; mat
        sc[?] <- 0; :; [0]; ..., 0; None, 0, 0
        empty[0]; none[0]; none[[0]]; vec[at[:3], at[:3]]
    """),
]  # fmt: skip

OTHER_SAVED = {
    "IndexBackward0": "an index is copied, so that later writes to it do no harm",
    "IndexPutBackward0": "an index is copied, so that later writes to it do no harm",
}
