"""RDRs and absolute risks, preferences over RDRs, and the largest ε that meets a preference.

Takes Contributions and a mechanism. Gives a Choice, and numbers per class; a class is a set of equally exposed people.
Never reads the data again, never draws noise.
"""

from dosimeter.risk.absolute import advantage, largest_difference, lee_clifton, own_epsilon, posterior_probability
from dosimeter.risk.advice import (
    Advice,
    AnswerAccuracy,
    CoarserQuery,
    ConditionRange,
    RiskAndAccuracy,
    decides,
    find_conflict,
    find_safe,
)
from dosimeter.risk.choose import (
    ExactLimit,
    JudgedCandidates,
    build_candidates,
    exact_limit,
    find_largest,
    paper_candidates,
    parse_candidates,
)
from dosimeter.risk.ex_post import compute_ex_post
from dosimeter.risk.notes import find_empty_filters, note_empty_filter, write_notes
from dosimeter.risk.preference import Preference, parse_preference
from dosimeter.risk.preference_names import PRESETS, SAFE_ADVANTAGE
from dosimeter.risk.preference_terms import PreferenceFunction, Verdict, is_met
from dosimeter.risk.ranks import RankCells, compute_rank_rdr
from dosimeter.risk.rdr import compute_rdr, summarise_rdr, summarise_rdrs, weighted_quantile
from dosimeter.risk.sensitivities import summarise_sensitivities
from dosimeter.risk.shown_groups import HARDLY, ShownAt, ShownGroups, foresee_groups
from dosimeter.risk.values import (
    NO_ERROR,
    AbsoluteRisk,
    Candidate,
    Choice,
    ExposedPerson,
    GroupRisk,
    RDRs,
    Sensitivities,
    Spread,
)

__all__ = [
    "HARDLY",
    "NO_ERROR",
    "PRESETS",
    "SAFE_ADVANTAGE",
    "AbsoluteRisk",
    "Advice",
    "AnswerAccuracy",
    "Candidate",
    "Choice",
    "CoarserQuery",
    "ConditionRange",
    "ExactLimit",
    "ExposedPerson",
    "GroupRisk",
    "JudgedCandidates",
    "Preference",
    "PreferenceFunction",
    "RDRs",
    "RankCells",
    "RiskAndAccuracy",
    "Sensitivities",
    "ShownAt",
    "ShownGroups",
    "Spread",
    "Verdict",
    "advantage",
    "build_candidates",
    "compute_ex_post",
    "compute_rank_rdr",
    "compute_rdr",
    "decides",
    "exact_limit",
    "find_conflict",
    "find_empty_filters",
    "find_largest",
    "find_safe",
    "foresee_groups",
    "is_met",
    "largest_difference",
    "lee_clifton",
    "note_empty_filter",
    "own_epsilon",
    "paper_candidates",
    "parse_candidates",
    "parse_preference",
    "posterior_probability",
    "summarise_rdr",
    "summarise_rdrs",
    "summarise_sensitivities",
    "weighted_quantile",
    "write_notes",
]
