"""Orders of rows, computed again from the definition: python3 record.py > cases.json

The permutation is written here a second time, from the papers (Philox4x32-10: Salmon et al., SC11; a Feistel network
with cycle walking), and grouping by length is transformers' get_length_grouped_indices (trainer_pt_utils.py, 4.57),
with this permutation in the place of torch.randperm.
"""
import json

M = 0xFFFFFFFF

def philox(c, k):
    c, (k0, k1) = list(c), k
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & M, (a >> 32) ^ c[3] ^ k1, a & M]
        k0, k1 = (k0 + 0x9E3779B9) & M, (k1 + 0xBB67AE85) & M
    return c

assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], (0xA4093822, 0x299F31D0))[0] == 0xD16CFE09

def permutation(n, seed, epoch):
    key = philox([int.from_bytes(b"ORDR", "big"), 0, 0, 0], (seed & M, seed >> 32))[:2]
    half = 4
    while 1 << (2 * half) < n:
        half += 1
    mask = (1 << half) - 1
    rows = []
    for position in range(n):
        x = position
        while True:
            left, right = x >> half, x & mask
            for r in range(8):
                left, right = right, left ^ (philox([right, r, epoch & M, epoch >> 32], key)[0] & mask)
            x = left << half | right
            if x < n:
                break
        rows.append(x)
    assert sorted(rows) == list(range(n))
    return rows

def get_length_grouped_indices(lengths, batch_size, indices):
    mega_batch_mult = min(len(lengths) // (batch_size * 4), 50)
    if mega_batch_mult == 0:
        mega_batch_mult = 1
    megabatch_size = mega_batch_mult * batch_size
    megabatches = [indices[i : i + megabatch_size] for i in range(0, len(lengths), megabatch_size)]
    megabatches = [sorted(megabatch, key=lambda i: lengths[i], reverse=True) for megabatch in megabatches]
    megabatch_maximums = [lengths[megabatch[0]] for megabatch in megabatches]
    max_idx = megabatch_maximums.index(max(megabatch_maximums))  # torch.argmax of the values here: the first
    megabatches[0][0], megabatches[max_idx][0] = megabatches[max_idx][0], megabatches[0][0]
    return [i for megabatch in megabatches for i in megabatch]

def length(row, kind):
    return [1 + (row * 7919 + 13) % 97, 1 + row % 2, 1000 if row == 17 else 5, 8][kind]

cases = []
for n, seed, epoch in [(1, 0, 0), (2, 1, 0), (5, 42, 0), (5, 42, 1), (64, 42, 3), (65, 2**64 - 1, 2), (100, 42, 2**32 + 1), (1000, 7, 0)]:
    rows = permutation(n, seed, epoch)
    cases.append({"n": n, "seed": str(seed), "epoch": epoch, "rows": rows})
    for kind in range(4):
        for step_rows in (1, 8, 32):
            cases.append({"n": n, "seed": str(seed), "epoch": epoch, "step_rows": step_rows, "lengths": kind,
                          "rows": get_length_grouped_indices([length(r, kind) for r in range(n)], step_rows, rows)})
print("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "]")
