/* pairs OP, KIND, FIRST, LAST, BASE, AT: stp or ldp (OP) of the registers KIND FIRST to KIND LAST at BASE + AT on. */
        .altmacro
        .macro  pair op, kind, one, two, base, at
        \op     \kind\one, \kind\two, [\base, #\at]
        .endm
        .macro  pairs op, kind, first, last, base, at
        .ifc    \kind, q
        .set    pair_bytes, 32
        .else
        .set    pair_bytes, 16
        .endif
        .set    pair_one, \first
        .rept   (\last - \first + 1) / 2
        pair    \op, \kind, %pair_one, %(pair_one + 1), \base, %(\at + (pair_one - \first) / 2 * pair_bytes)
        .set    pair_one, pair_one + 2
        .endr
        .endm
