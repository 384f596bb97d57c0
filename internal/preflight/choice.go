package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lapse/internal/preflight/manifest"
	"lapse/internal/preflight/rules"
)

// A Choice holds the rules to ask. The zero value holds all.
type Choice struct{ rules []rules.Rule }

// Choose returns the rules to ask: those in only, or all if it is empty, without those in skip. Both hold IDs
// or names.
func Choose(only, skip []string) (Choice, error) {
	named := func(names []string) ([]string, error) {
		var ids []string
		for _, name := range names {
			id := ruleID(name)
			if id == "" {
				return nil, noSuchRule(name)
			}
			ids = append(ids, id)
		}
		return ids, nil
	}
	wanted, err := named(only)
	if err != nil {
		return Choice{}, err
	}
	unwanted, err := named(skip)
	if err != nil {
		return Choice{}, err
	}
	c := Choice{slices.DeleteFunc(allRules(), func(r rules.Rule) bool {
		left := len(wanted) > 0 && r.ID != NothingKnown.ID && !slices.Contains(wanted, r.ID)
		return left || slices.Contains(unwanted, r.ID)
	})}
	if len(wanted) > 0 && !slices.ContainsFunc(wanted, c.has) {
		return Choice{}, errors.New("no rule is left: --skip has all that --rules has")
	}
	return c, nil
}

// has reports whether a rule is chosen.
func (c Choice) has(id string) bool {
	return c.rules == nil || slices.ContainsFunc(c.rules, func(r rules.Rule) bool { return r.ID == id })
}

// keep removes from a result what other rules say.
func (c Choice) keep(r *Result) {
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return !c.has(f.Rule) })
	r.Unjudged = slices.DeleteFunc(r.Unjudged, func(u rules.Unjudged) bool { return !c.has(u.Rule) })
	r.Rules = slices.DeleteFunc(r.Rules, func(r rules.Rule) bool { return !c.has(r.ID) })
}

// allRules returns all rules that a finding may be of.
func allRules() []rules.Rule { return slices.Concat([]rules.Rule{NothingKnown}, rules.All()) }

// ruleID returns the ID of a rule that is named by it or by its name; "" if there is none.
func ruleID(name string) string {
	for _, r := range allRules() {
		if strings.EqualFold(name, r.ID) || strings.EqualFold(name, r.Name) {
			return r.ID
		}
	}
	return ""
}

func noSuchRule(name string) error {
	var names []string
	for _, r := range rules.All() {
		names = append(names, r.Name)
	}
	near := cmp.Or(manifest.Nearest(name, names), "LP05 or no-prestop, for example")
	return fmt.Errorf("there is no rule %q: did you mean %s?", name, near)
}
