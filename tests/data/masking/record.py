"""Hidden tokens, computed a second time from the definition in src/data/masking.h: python3 record.py > cases.json"""
import json, math

M = 0xFFFFFFFF

def philox(c, k):
    c, (k0, k1) = list(c), k
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & M, (a >> 32) ^ c[3] ^ k1, a & M]
        k0, k1 = (k0 + 0x9E3779B9) & M, (k1 + 0xBB67AE85) & M
    return c

def mask(ids, seed, epoch, row, probability, mask_id, vocab_size, special):
    key = philox([int.from_bytes(b"MASK", "big"), 0, 0, 0], (seed & M, seed >> 32))[:2]
    out, targets = list(ids), [-100] * len(ids)
    for i, token in enumerate(ids):
        r = philox([i, row & M, row >> 32, epoch & M], key)
        if token in special or r[0] / 2**32 >= probability:
            continue
        targets[i] = token
        if r[1] / 2**32 < 0.8:
            out[i] = mask_id
        elif r[1] / 2**32 < 0.9:
            out[i] = math.floor(r[2] / 2**32 * vocab_size)
    return out, targets

cases = []
for seed, epoch, row, p in [(42, 0, 0, 0.15), (42, 1, 0, 0.15), (42, 0, 2, 0.15), (2**64 - 1, 7, 1, 0.5), (0, 3, 3, 1.0)]:
    ids = [2] + [5 + (row * 31 + i * 17) % 95 for i in range(58)] + [3]
    out, targets = mask(ids, seed, epoch, row, p, 4, 100, {0, 1, 2, 3, 4})
    cases.append({"seed": str(seed), "epoch": epoch, "row": row, "probability": p, "ids": out, "targets": targets})
print("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "]")
