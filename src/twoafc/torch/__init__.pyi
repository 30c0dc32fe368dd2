from .fused import FusedDistance as FusedDistance
from .loss import VoteLoss as VoteLoss
from .metric import VoteNLL as VoteNLL
from .psychometric import FittedPsychometric as FittedPsychometric
from .psychometric import Psychometric as Psychometric
