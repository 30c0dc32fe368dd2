"""How sure a score is: error bars, paired differences, floors and ceilings."""
