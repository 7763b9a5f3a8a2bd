"""RDRs and absolute risks, preferences over RDRs, and the largest ε that meets a preference.

Takes Contributions and a mechanism. Gives numbers per class; a class is a set of equally exposed people.
Never reads the data again, never draws noise.
"""

from dosimeter.risk.absolute import (
    FALSE_ALARMS,
    advantage,
    largest_difference,
    largest_power,
    lee_clifton,
    own_epsilon,
    posterior_of_alarm,
    posterior_probability,
)
from dosimeter.risk.advice import (
    AnswerAccuracy,
    ConditionRange,
    decides,
    find_conflict,
    find_safe,
    is_alike,
)
from dosimeter.risk.ex_post_rdr import compute_ex_post
from dosimeter.risk.exposure import (
    NO_ERROR,
    AbsoluteRisk,
    Candidate,
    ExposedPerson,
    GroupRisk,
    RDRs,
    Sensitivities,
    Spread,
)
from dosimeter.risk.largest_epsilon import (
    ExactLimit,
    JudgedCandidates,
    exact_limit,
    extremes,
    find_largest,
    paper_candidates,
    parse_candidates,
)
from dosimeter.risk.preference import PeopleAggregate, Preference, parse_preference
from dosimeter.risk.preference_functions import FUNCTIONS
from dosimeter.risk.preference_names import PRESETS, SAFE_ADVANTAGE, SAFE_LIMIT, USUAL_PRESET
from dosimeter.risk.preference_terms import AnswerNumber, PreferenceFunction, Verdict
from dosimeter.risk.rank_distances import RankCells, compute_rank_rdr
from dosimeter.risk.rdr import compute_rdr, summarise_rdr, summarise_rdrs, weighted_quantile
from dosimeter.risk.sensitivities import summarise_sensitivities
from dosimeter.risk.shown_groups import HARDLY, ShownAt, ShownGroups, foresee_groups
from dosimeter.risk.two_worlds import TwoWorlds, spread_draws, spread_noise
