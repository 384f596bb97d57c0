// Command lab plays scenarios on the sandbox while Lapse measures, each of them one way in which a real Service loses
// requests, or must not, and holds what Lapse says against what was done.
//
//	go -C sandbox run ./lab                              all scenarios, on the sandbox that is up
//	go -C sandbox run ./lab crash grace-too-short        two of them
//	go -C sandbox run ./lab -n 2 -modes iptables,nftables -out ../docs/measured    the track record of each cause
//	go -C sandbox run ./lab -together 1                  one after the other
//	go -C sandbox run ./lab -judge ../runs/lab-…         saved runs again, by today's Lapse and scenarios
//	go -C sandbox run ./lab -scenarios lab/heldout       those that no rule was written for
//	go -C sandbox run ./lab -check                       are the scenarios' files right?
//
// It exits 1 if anything is not as a scenario expects, or if a saved run cannot be judged. The runs are kept:
// RUNS/lab-TIME/MODE/SCENARIO/NUMBER has Lapse's recording in run/ (`lapse report run -v`), what it printed (lapse.txt,
// lapse.log), and the truth: when each step was taken and how containers ended (lab.json, pods.json).
//
//	go -C sandbox run ./lab -fixed                       the scenarios that have a fix, with it: no request may fail
//	go -C sandbox run ./lab crash-fixed                  one of them
//
// Each scenario has a namespace of its own. Three at a time are played side by side, but for those that act on what
// all share: a node, its network or a component on it, the control plane, DNS, a load balancer before the nodes. Their
// steps and their section outside show that. They are played afterwards, one after the other, and nothing is left on
// the nodes of the scenarios before. A cut or a flush of one Pod's address (`let ip = address of $victim`) touches only
// its own scenario.
//
// # How to write a scenario
//
// A scenario is a file scenarios/NAME.txtar. NAME is the cause, or the cause and what is special:
//
//	What it shows, in one sentence.
//
//	The row of causes, and what is surprising.
//	-- manifest.yaml --
//	A Deployment and a Service web, in YAML. The image lapse-workload:dev is on every node (see sandbox/workload).
//	An image such as debian:nginx-light is made of Debian's package of that name, and put on every node before.
//	-- outside --
//	lb --interval 1s --unhealthy 2
//	-- steps --
//	let victim = pod of web on node2
//	after 1s
//	kill server of $victim
//	until web ready
//	-- lapse --
//	--avoid-node node2,node3
//	-- expect --
//	incident pod-crashed high
//	  begins within 1s of kill server of $victim
//	  failed 1..100
//	  says $victim
//	no other incident
//	never route-outlives-pod
//	provoked $victim exits 137
//	-- fix --
//	replace args: [--on-sigterm, exit]
//	with args: [--on-sigterm, graceful]
//
// $namespace is the scenario's namespace, also in the manifest.
//
// The fix, if there is one, puts lines in the place of the manifest's first line that says so; a section fix.yaml
// adds objects. `allow cuts` below them allows that held connections end without an announcement.
//
// A server of Debian's has its configuration in a ConfigMap of the manifest, listens on port 8080, and runs as root.
// Several packages in one image are debian:PACKAGE_PACKAGE. An image that cannot be made, because Debian's mirror does
// not answer, keeps only the scenarios that need it from being played.
//
// Further sections NAME.yaml are manifests that steps apply. A section certificate, with a line `good for 75s`, makes
// the certificate of $ca expire 75 s after it was made.
//
// The section outside, if there is one, says what stands before the nodes. Once all is deployed, `lb FLAG…` and
// `ingress FLAG…` are started, as by `sandbox lb up FLAG…` and `sandbox ingress up FLAG…`. $lb and $ingress are
// their addresses, $lb6 and $ingress6 their addresses of IPv6. With a line `families ipv4,ipv6` the sandbox has both
// families; it is restarted if it has not.
//
// The section lapse has further flags of `lapse run`. What a line begins with before its first flag is measured in
// the place of svc/web: `svc/web:grpc --scheme grpc`, or `http://$lb/ --watch svc/web`. A URL, and what has
// `--from outside`, is measured from outside of the nodes. There is no $prober then, nor with any other --from. $ca,
// as in `--scheme h2 --ca-file $ca`, is a file with whom to trust; Pods mount the certificate that goes with it, for
// web, from the Secret lab-tls.
//
// Steps are taken one after the other while Lapse measures: after its baseline of 3 s, and it goes on for 4 s after
// the last one. They are written in the operator's words:
//
//	let NAME = pod of APP [on NODE]     $NAME is a Pod: the first of that app by name; also `youngest pod of APP`,
//	                                    `busiest pod of APP`, `node of POD`, `address of POD`. $prober is the node of
//	                                    Lapse's own Job.
//	after 3s, at 8s                     wait, or wait until 8 s after the first step
//	until web ready                     rolled out, and no older Pod is left
//	until web has 0 ready               0 endpoints of the Service web are ready
//	until POD gone, until node2 ready, until node2 unknown
//	drain NODE [FLAG…], cordon NODE, uncordon NODE, taint NODE KEY=VALUE:EFFECT
//	rollout web, scale web 0, delete POD [FLAG…], force-delete POD, patch service/web {"spec":…}, kubectl ARG…
//	apply NAME.yaml                     what a further section of the scenario says
//	renew certificate                   put a fresh one into the Secret; nothing is restarted
//	stop PROCESS, continue PROCESS, restart PROCESS, kill server of POD
//	                                    PROCESS: kube-proxy node2, kubelet node2, containerd node2, kube-apiserver,
//	                                    kube-scheduler, kube-controller-manager, coredns, etcd, or `server of POD`
//	cut NODE from PEER, restore NODE    drop the packets between them; a PEER is api, all, another node or an address
//	flush NODE of ADDRESS               its connection tracking forgets the connections to the Pod with the address
//	call POD PATH                       a request to its server, such as /ready/off
//
// `try` before a step lets it fail, as a drain that is refused; `meanwhile` goes on with the next step at once. What
// is stopped is continued at the end, and what is cut restored, also after an error or Ctrl-C.
//
// Lapse wraps the steps as its command, and sees of them only what kubectl prints.
//
// The expectation states the right name, whether or not Lapse knows it yet; a further name (`a or b`) only where both
// say the same. There is no scenario without an expectation. Each line of it is checked, and fails by itself:
//
//	incident RULE [low|medium|high]     the rule stands first, and is at least so sure (medium)
//	  begins within 2s of STEP          its begin may be between the step's begin and 2 s after the step's end
//	  ends within 2s of STEP
//	  failed 10..200                    requests, of all its targets; 10.. is 10 or more
//	  cut 10..200                       connections that were held (--held)
//	  also RULE                         it names this one as well, where two things happened at once
//	  says TEXT                         in the cause's text or fix
//	  set off by TEXT                   in the words for a change that set it off
//	no failure                          nothing failed; no incident, but held connections that are announced to end
//	allow cuts                          with `no failure`: held connections may end without an announcement
//	no other incident                   but for those of a rule that `allow RULE` names
//	never RULE                          not even as the last of an incident's causes
//	lags hold                           the servers' own words and the nodes' rules (sandbox/truth) contradict no lag
//	                                    of a stale route; web's Pods have one container, which is not restarted
//	predicted LP04 confirmed            preflight predicted it, and the run says: confirmed, refuted or not-tested
//	provoked POD exits CODE             the truth, without which the scenario shows nothing
//
// Where all servers live through the run their own counts of answers are held against Lapse's.
//
// A run that is not as expected says nothing of Lapse where the machine stood still for 300 ms or longer at a time:
// servers and probers stood still with it. Nor does one whose watch was interrupted, though its scenario touches
// nothing but its own namespace: the API server had no time for a second. It is void, and the scenario is played
// again, at most twice; its folder is kept as N-void-1. Where a table is published (-out) every run counts, and one
// that names a wrong cause at high confidence is never void.
package main
