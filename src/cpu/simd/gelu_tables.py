"""Writes gelu_tables.h, the coefficients of gelu_of_tables (act.h): python3 gelu_tables.py >gelu_tables.h; needs mpmath.

gelu(x) = max(x, 0) - D(|x|), and so with either form: D(u) = u (1 - Phi(u)), or u (1 - sigmoid(2 sqrt(2/pi) (u + 0.044715 u^3))).
Piece i approximates D on [(i - 1/2) w, (i + 1/2) w] by the polynomial that interpolates it at Chebyshev's nodes; piece 0 has D(0) = 0
and D'(0) = 1/2 exactly; the last one, which every larger u takes, is 0."""
import struct

from mpmath import cos, erfc, exp, lu_solve, matrix, mp, mpf, pi, sqrt

mp.dps = 40
PIECES, DEGREE, WIDTH = 32, 5, mpf(3) / 16


def tail(u):
    return erfc(u / sqrt(2)) / 2


def tail_tanh(u):
    return 1 / (1 + exp(2 * sqrt(2 / pi) * (u + mpf("0.044715") * u**3)))


def interpolate(f, middle, degree):
    nodes = [WIDTH / 2 * cos(pi * (2 * k + 1) / (2 * (degree + 1))) for k in range(degree + 1)]
    powers = matrix([[r**j for j in range(degree + 1)] for r in nodes])
    return list(lu_solve(powers, matrix([f(middle + r) for r in nodes])))


def hex_float(x):
    # What ought to be 0 (D is even but for u / 2, so piece 0 has no other odd power) comes out as 1e-38, and an Intel processor takes a
    # hundred times as long for a product that is denormal.
    x = x if abs(x) > mpf(2) ** -60 else 0
    x = struct.unpack("f", struct.pack("f", float(x)))[0]
    return "0" if x == 0 else x.hex().replace("0000000p", "p") + "f"


def table(name, share):
    pieces = [[mpf(0)] + interpolate(share, mpf(0), DEGREE - 1)]
    pieces[0][1] = mpf(1) / 2
    pieces += [interpolate(lambda u: u * share(u), i * WIDTH, DEGREE) for i in range(1, PIECES - 1)]
    pieces += [[mpf(0)] * (DEGREE + 1)]
    print(f"static const float {name}[{DEGREE + 1}][{PIECES}] = {{")
    for j in range(DEGREE + 1):
        print("    {" + ", ".join(hex_float(p[j]) for p in pieces) + "},")
    print("};")


print("/* gelu_tables.h: made by gelu_tables.py. [j][i]: of (|x| - i GELU_WIDTH)^j in piece i. */")
print("#ifndef CPU_GELU_TABLES_H\n#define CPU_GELU_TABLES_H\n")
print(f"#define GELU_WIDTH {float(WIDTH)}f\n#define GELU_DEGREE {DEGREE}\n#define GELU_PIECES {PIECES}\n")
table("gelu_table", tail)
table("gelu_tanh_table", tail_tanh)
print("\n#endif")
