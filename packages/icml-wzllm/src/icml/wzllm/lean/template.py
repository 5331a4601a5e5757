"""The frame of a printed proof: definitions, one theorem for each obligation, the conclusion."""

from __future__ import annotations

from collections.abc import Mapping

_DEFINED = {
    "F": ("n k", "the summand"),
    "T": ("n", "the closed form"),
    "U": ("n k", "the certificate's positive part"),
    "D": ("n k", "the certificate's negative part"),
    "P": ("n", "the recurrence's coefficient of f(n+1)"),
    "Q": ("n", "the recurrence's coefficient of f(n)"),
}

_Z = "(Whole.pos Nat.zero)"


def proof_text(
    *,
    name: str,
    binders: str,
    arguments: str,
    n: str,
    k: str,
    definitions: Mapping[str, str],
    proofs: Mapping[str, str],
    conclusion: str,
) -> str:
    """Return the declarations of a proof.

    Args:
        name: The theorem's name; all others begin with it.
        binders: The parameters with their types.
        arguments: The parameters.
        n: The shifted variable.
        k: The summation variable.
        definitions: Lean text for F, T, U, D, P and Q.
        proofs: Lean text for each obligation; an empty one is left out.
        conclusion: What the theorem states of n.
    """
    lines: list[str] = []
    for letter, (indices, what) in _DEFINED.items():
        names = " ".join({"n": n, "k": k}[index] for index in indices.split())
        kind = "Nat → " * len(indices.split())
        body = f"fun {names} => {definitions[letter]}"
        lines += [
            f"-- {what}",
            f"noncomputable def {name}_{letter}{binders} : {kind}Whole := {body}",
            "",
        ]
    call = {letter: f"{name}_{letter}{arguments}" for letter in _DEFINED}
    for obligation, statement in _statements(call, n, k, from_one=bool(proofs["one"])).items():
        if proofs[obligation]:
            lines += [
                f"theorem {name}_{obligation}{binders}{statement} :=",
                f"  {proofs[obligation]}",
                "",
            ]
    lines += [f"theorem {name}{binders} ({n} : Nat) : {conclusion} :="]
    lines += [_conclusion(name, arguments, call, n, from_one=bool(proofs["one"]))]
    return "\n".join(lines) + "\n"


def _statements(call: Mapping[str, str], n: str, k: str, *, from_one: bool) -> dict[str, str]:
    """State each obligation: binders, a colon, the equation."""
    f, t, u, d, p, q = (call[letter] for letter in "FTUDPQ")
    n1, k1 = f"(Nat.succ {n})", f"(Nat.succ {k})"
    zero, one = "Nat.zero", "(Nat.succ Nat.zero)"
    at = n1 if from_one else n
    return {
        "start": f" ({n} : Nat) : Eq (wAdd (wMul ({p} {n}) ({f} {n1} {zero})) ({d} {n} {zero}))"
        f" (wAdd (wMul ({q} {n}) ({f} {n} {zero})) ({u} {n} {zero}))",
        "hop": f" ({n} {k} : Nat) : Eq"
        f" (wAdd (wMul ({p} {n}) ({f} {n1} {k1})) (wAdd ({u} {n} {k}) ({d} {n} {k1})))"
        f" (wAdd (wMul ({q} {n}) ({f} {n} {k1})) (wAdd ({u} {n} {k1}) ({d} {n} {k})))",
        "last": f" ({n} : Nat) : Eq ({f} {n} {n1}) {_Z}",
        "final": f" ({n} : Nat) : Eq ({u} {n} {n1}) ({d} {n} {n1})",
        "closed": f" ({n} : Nat) : Eq (wMul ({p} {n}) ({t} {n1})) (wMul ({q} {n}) ({t} {n}))",
        "cancel": f" ({n} : Nat) (a b : Whole)"
        f" (h : Eq (wMul ({p} {at}) a) (wMul ({p} {at}) b)) : Eq a b",
        "zero": f" : Eq ({f} {zero} {zero}) ({t} {zero})",
        "one": f" : Eq (wAdd ({f} {one} {zero}) ({f} {one} {one})) ({t} {one})",
    }


def _conclusion(
    name: str, arguments: str, call: Mapping[str, str], n: str, *, from_one: bool
) -> str:
    at = f"(Nat.succ {n})" if from_one else n
    first = "one" if from_one else "zero"
    f, t, u, d, p, q = (call[letter] for letter in "FTUDPQ")

    def proof(obligation: str) -> str:
        return f"{name}_{obligation}{arguments}"

    step = (
        f"wzStep Z ({f} (Nat.succ {at})) (fun _ => {_Z}) ({f} {at}) ({p} {at}) ({q} {at})"
        f" ({u} {at}) ({d} {at}) {at} ({proof('last')} {at}) ({proof('start')} {at})"
        f" ({proof('hop')} {at}) ({proof('final')} {at})"
    )
    same = (
        f"sameSeq Z (fun {n} => sumTo Z ({f} {at}) {at}) (fun {n} => {t} {at})"
        f" (fun {n} => {p} {at}) (fun {n} => {q} {at}) ({proof('cancel')})\n"
        f"    (fun {n} => {step})\n"
        f"    (fun {n} => {proof('closed')} {at}) ({proof(first)}) {n}"
    )
    if not from_one:
        return f"  {same}"
    motive = f"(motive := fun {n} => Eq (sumTo Z ({f} {n}) {n}) ({t} {n}))"
    return f"  Nat.rec {motive} ({proof('zero')})\n    (fun {n} _ => {same}) {n}"
