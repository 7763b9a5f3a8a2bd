"""The paper again: its example, tables and figures, computed by this package and compared with the authors' results.

"Within-Dataset Disclosure Risk for Differential Privacy" (Zhu and Castro Fernandez). Nothing here backs a release:
where the authors' conventions differ from sound practice they are followed on purpose, and labelled.

    data, generate      the UCI Adult files; the larger tables made from them
    queries             the five queries, how the authors and this package measure them, and the authors' results
    example             three patients
    thresholds          ε found for each ratio           (find-ε-from-RDR)
    variance            ε found for each variance        (find-and-release-ε-from-RDR)
    scalability         running times
    differences         where paper, code and sound practice differ, each with a demonstration
    figures, report     pictures, and one page with everything
"""
