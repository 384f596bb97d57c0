// Package causes explains windows. Each rule knows one way in which a window comes about; it reads a case and returns
// what it found. The rules stand in families (empty, routes, pods, network, connections), each a package. A new rule is
// a file of its family and a line in rules.go. How confident a cause is, what its rivals are and which comes first
// follows from the rules' findings in one place: rule/confidence.go and rank.go.
package causes

import (
	"lapse/correlate/causes/connections"
	"lapse/correlate/causes/empty"
	"lapse/correlate/causes/network"
	"lapse/correlate/causes/pods"
	"lapse/correlate/causes/routes"
	"lapse/correlate/causes/rule"
)

// rules lists every rule. Where two are equally confident the upper one is named first.
var rules = []rule.Rule{
	network.ProberFault,
	network.ProberIsolated,
	empty.LocalNoEndpoint,
	empty.NoReadyEndpoint.Rule(),
	empty.SelectorSwitch.Rule(),
	empty.PortSwitch,
	empty.ReplacementWaits.Rule(),
	empty.AdmissionBlocked.Rule(),
	empty.NodePresumedDead.Rule(),
	empty.SharedReadiness.Rule(),
	network.DNSPath,
	network.NodeUnreachable,
	network.NodePortUnreachable,
	network.FamilyBroken,
	routes.LBDrainGap,
	pods.GraceTooShort,
	routes.PreStopFailed,
	pods.PodCrashed,
	pods.UndeclaredTermination,
	routes.ControllerLag,
	routes.KubeProxyLate,
	routes.SidecarFirst,
	routes.UDPStaleEntry,
	routes.RouteOutlivesPod,
	routes.StaleAddress,
	routes.IngressLag,
	pods.FailingVersion,
	pods.StartupRace,
	pods.NotYetReachable,
	pods.AcceptStall,
	pods.PodHung,
	pods.ForcedDelete,
	connections.PinnedConnection,
	connections.IdleRace,
	connections.FlowsCut,
	connections.IdleTimeout,
}

// Rules lists the rules that can name a cause, and what is said where none does.
func Rules() []rule.Rule { return append(rules[:len(rules):len(rules)], unexplained) }
