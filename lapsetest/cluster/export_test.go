package cluster

// StartWith is Start with a client of the cluster.
var StartWith = start
