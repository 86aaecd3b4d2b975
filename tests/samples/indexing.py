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
        sc[sc > 0]; sc[sc * 0 > 1]; mat[mat[0, 0] > 9]
        sc[?] <- ...; None; (); None, None; True; ksc; False
        i[?] <- 0; 1:, 0; k; [1, 0]
        vec[?] <- at; [0, 0, 0]; isc - 1; iv - 1; u8 > 2; 1:3; kv
        nan[?] <- k; 0; [1, 1]
        mat[?] <- [[0, 1], [1, 0]]; [[0], [1]]; ([0, 1], [1, 2]); [[0, 1]],; [True, False], 1
        mat[?] <- u8[:2]
        mat[?] <- k.byte(); at32.numpy(); kv.numpy()[:2]; :, at.numpy(); range(2); (0, [1])
        mat[?] <- [slice(0, 1)]; [slice(0, 1), 1]; [None, 0]; [0, None]; [isc - 3, isc - 2]
        mat[?] <- [at32[:1], at32[1:]]; isc.int() - 2; u8[2]; [-1, -2]; [[-1], [0]], [[0, -1]]
        mat[?] <- 0, True; True, 0; True, True; False, 0; None, True; :, True; True, :
        mat[?] <- [[True, False],]
        mat[?] <- ..., [0, 1], [0, 1]; isc - 3, [0, 1]; at32, isc - 3; 1, [0]; [0], 1; 0:1, [0, 1]
        mat[?] <- [0], 0:2; isc.numpy() - 2; at32.numpy().tolist(); iempty.numpy(); [0, 0, 1, 0]
        cube[?] <- [0, 1], 1, [0, 1]; [0, 1], 1:, [0, 1]; [[[0]]]; ([0, 1], [[0], [1]])
        cube[?] <- None, [0, 1], None, [0, 1]; 0, ..., [0, 1]; ..., True; [True, False], ..., [0, 1]
        cube[?] <- k, None; k, ...; 0, kv; :, kv, [0, 1]; 1:, [0, 2], [1, 1]; k, [0, 1, 1]
        cube[?] <- [0, 0], :, :
        vec[?] <- [[0, 1]]; (2,); [isc - 3]; [0.5]; [None]; [...]; [True, False, True]; [0, 0, 0, 2]
        torch.stack([x for x in mat]); mat[at[:2] - at[:2], at[:2]]; mat[(0, 1)]; mat[[0, 1],]
        mat[1][2]; mat[:, 1:][0]
    """),
]  # fmt: skip
GROUPS = {"indexing": INDEXING}
ERRORS = [
    *calls("""
        mat[?] <- 2; -3; 0, 3; 0, 0, 0; [0, 2]; [0, -3]; :, [3]; k[:, :2]; kv; 1.5; 'a'; ::0
        mat[?] <- f64; ..., 0, 0, 0; k, 0; [0, 1], [0, 1, 2]; 1.0:2; mat
        sc[?] <- 0; :; [0]; ..., 0; None, 0, 0
        mat[?] <- [[True, False, True], [False, False, True]]; i8; i32.short(); kv.numpy()[0]; {}
        vec[?] <- [[0, 1], [1, 2]]; [isc - 3, 1]; ['a']; [[0], [1, 2]]; at.numpy() + 5
        vec[?] <- f64.numpy()[0]
        empty[0]; none[0]; none[[0]]; vec[at[:3], at[:3]]
    """),
]  # fmt: skip

OTHER_SAVED = {
    "IndexBackward0": "an index is copied, so that later writes to it do no harm",
    "IndexPutBackward0": "an index is copied, so that later writes to it do no harm",
}
NOT_BATCHED = {
    r"> \d\]|\.byte\(\)": "as many results as there are places where a mask holds",
    r"\.numpy\(\)": "an array of NumPy's is one for all entries",
}
