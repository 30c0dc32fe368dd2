"""Parquet files that are damaged in one bit, at which polars does worse than raise an error."""

from __future__ import annotations

import base64
import zlib

WHOLE = zlib.decompress(
    base64.b85decode(
        b"c-nna&1(};5P$p8r4$dLbRJpQ!(O_yD0Q=KNg|c-"
        b"vI&@)*dz#234x@WO^Y>=q)pm?z@sNGdeVz051tBMd+S9Cp1g{GghyxIZjxGwLw0B0%<m&_V5_2@0v&9y%b3_KlsE%}Wmvuk1|;w?"
        b"7*nxnD2lcKy1C7agqc)&z_`JCyyxVdMTR;FNR&Y(Idvw3&3|N=HdCocl?HD(*NXE=A<7Qy5QW{OynjdWH5cWp+@_50Iao4RnPDc?"
        b"z?DKx-gGY1|EpZ({#N^OLnSp;xzw0x@jPsCq+)fgfESk+Dm3HrQj1DZ&Bh~r(C?oB?P68M{lvM#U<ot+!%2}s57RQs&KJd+w@>~}"
        b"hZW|0R;~HF;y-oZ%z3L>bJoCrOTY)+nsY<`W&r{GwZ;u+5z`7?DtSlL>wC{03=a-"
        b"FFI&l9>V1lFDKCU5;v+I6JfGD>be65hLJWm3b4}c>5`Ikmk`Ub(M|fY7_UTm+Vxre3{F%hdxgU)p1cp13{?pO(0@8M$Vl&g7ibOt"
        b"nF^);q0nL4K%XbMv{QQdwzQ^QuE^hnz6TefMyCTw?po-Ke3~3d6Gtz!EFG*yPd??qXnV4K4drJ?gyCmwz=XO^-"
        b"WXUJh{&8zCwAWsppB(mk>-"
        b"MNK7#{U|wzrYmaP77B>Ctgur^Br4wS&zt47_w0X1pM^<)t$%H{0^E+hOR1=~gGmdh2G{Vr=?jAMp#Q;%EN{I%>~-"
    )
)
"""A table of three rows, as polars 2.1 writes it."""


def flipped(bit: int) -> bytes:
    content = bytearray(WHOLE)
    content[bit // 8] ^= 1 << (bit % 8)
    return bytes(content)


PANIC, ABORT = flipped(305), flipped(328)
