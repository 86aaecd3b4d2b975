"""Ways to write many calls in few words."""

from itertools import product


def calls(text: str) -> list[str]:
    """Expressions parted by semicolons. ``f(?) <- x; y`` stands for ``f(x); f(y)``."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        template, arrow, arguments = line.partition(" <- ")
        items = [item.strip() for item in (arguments if arrow else line).split(";")]
        found += [template.strip().replace("?", a) if arrow else a for a in items]
    return found


def every(template: str, **words: str) -> list[str]:
    """``template`` with every combination of the words given for its names."""
    choices = [[w.strip() for w in text.split(";")] for text in words.values()]
    return [template.format(**dict(zip(words, w, strict=True))) for w in product(*choices)]


_PAIRS = """
    mat ? mat2; mat ? vec; col ? row; sc ? mat; mat ? sc; sc ? sc2; cube ? one; tran ? step;
    mat ? mat; none ? vec; gap ? col; empty ? sc; inf ? nan; nan ? mat; mat ? 2; mat ? 2.5;
    mat ? True; mat ? (1+2j); 3 ? pos; 2.5 ? pos; mat ? i; i ? mat; mat ? k; sc ? i; vec ? isc;
    vec ? u8; vec ? f32; vec ? f64; sc ? f64; f32 ? sc; vec ? f16; vec ? c64; mat ? csc;
    vec ? fsc
"""
_PROMOTED = """
    i ? iv; i ? 2; i ? 2.5; i ? True; isc ? 2.5; i32 ? i8; i32 ? u8; u8 ? i8; u8 ? 3; i8 ? isc;
    k ? i; kv ? u8; f16 ? i; f16 ? 2; f16 ? f32; f32 ? f64; f32 ? fsc; f64 ? c64; f32 ? csc;
    i ? (1j); f32 ? i; isc ? f32; fsc ? f32; ksc ? i; 3 ? i32; 2.5 ? iv; kv ? 2.5; i32 ? c64;
    fsc ? isc; isc ? fsc; isc ? i8; fsc ? iv
"""


def binary(symbol: str, pairs: str = _PAIRS + ";" + _PROMOTED) -> list[str]:
    return [pair.strip().replace("?", symbol) for pair in pairs.split(";") if pair.strip()]


def unary(names: str, on: str, fixed: str = "iv; kv; u8; isc; f16") -> list[str]:
    return every("torch.{name}({x})", name=names, x=f"{on}; {fixed}")
