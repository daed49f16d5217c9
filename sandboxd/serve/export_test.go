package serve

// SweepPrivate removes what killed servers left in a directory.
var SweepPrivate = sweepPrivate
