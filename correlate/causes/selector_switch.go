package causes

import (
	"fmt"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// selector-switch: somebody changed the Service's selector. The Pods that it had go on running, and are not routed to any more.
//
//	service    app=web            app=green
//	endpoints  3 3 3 3 3 3 3 3 3  0 0 0 0 0 0
//	direct     ok ok ok ok ok ok  ok ok ok ok      the Pods are as well as before

var selectorSwitch = Rule{
	Name: "selector-switch",
	Doc:  "The Service's selector was changed, and it selected no ready Pod any more.",
	Looks: `All requests fail, as where there is no endpoint. The Service's selector was changed just before, and its endpoints left though their Pods were
not ending; often these still answer at their own addresses.`,
	Fix:   "Change a selector only to labels that ready Pods have.",
	Needs: []Need{endpointSlices, endpointsWatched},
	Test:  testSelectorSwitch,
}

func testSelectorSwitch(c *Case) Finding {
	e, whyNot := c.emptiedBy("selector-switch")
	if e == nil {
		return no(whyNot)
	}
	change := fmt.Sprintf("%s → %s", e.event.From, e.event.To)
	at := quantity.Clock(e.event.At.Latest)
	f := e.finding(fmt.Sprintf("the Service's selector was changed (%s, %s), and ", change, at),
		fmt.Sprintf("change a selector only to labels of which ≥ 1 Pod is ready: %s at %s", change, at),
		e.sign("the Service's selector was changed: "+change))
	for _, p := range e.leavers[:min(len(e.leavers), mostNamed)] {
		if e.wentOnAnswering(p) {
			f.For = append(f.For, Sign{model.Evidence{Target: e.view.directName(e.window, p.Pod), Text: p.Name + " went on answering at its own address"}, Measured})
		}
	}
	f.For = append(f.For, e.all())
	return f
}
