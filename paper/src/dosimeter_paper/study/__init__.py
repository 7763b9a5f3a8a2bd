"""The study with people of the paper's section 6.1, as an instrument that can be run again, and its analysis.

    texts            every word a participant reads, versioned; the paper does not print its own
    generate         everything that is drawn: the sample, who sees what, tokens and participant numbers
    pictures         RDRs as pictures without advice
    instrument       the two queries on the sample: accuracy for everybody, RDRs for the treatment groups
    answers          what is stored of one participant, and its CSV
    store            answers in SQLite, without identifiers
    server           the pages
    analysis         the statistics of the paper, from the CSV
    figures          its swarm plots

This is a reconstruction. Running it with people needs the approval of an ethics board.
"""
