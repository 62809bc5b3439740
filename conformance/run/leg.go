package main

import (
	"fmt"
	"slices"
	"strings"
)

// leg is one run of the suite: one role, with all scenarios or with one frozen requirement set.
type leg struct {
	role string // "server", "client", or "gateway": our gateway in front of our server
	set  string // "all" or a revision
}

var allLegs = []leg{
	{"server", "all"}, {"server", "2025-11-25"}, {"server", "2026-07-28"},
	{"client", "all"}, {"client", "2025-11-25"}, {"client", "2026-07-28"},
	{"gateway", "2025-11-25"}, {"gateway", "2026-07-28"},
}

func (l leg) String() string { return l.role + "-" + l.set }

// tested returns the role for which the suite has scenarios.
func (l leg) tested() string {
	if l.role == "gateway" {
		return "server"
	}
	return l.role
}

// selection returns the arguments that select the scenarios of the leg.
func (l leg) selection() []string {
	if l.set == "all" {
		return []string{"--suite", "all"}
	}
	return []string{"--requirements", l.set}
}

func legNames() []string {
	var names []string
	for _, l := range allLegs {
		names = append(names, l.String())
	}
	return names
}

func parseLeg(name string) (leg, error) {
	i := slices.IndexFunc(allLegs, func(l leg) bool { return l.String() == name })
	if i < 0 {
		return leg{}, fmt.Errorf("unknown leg %q: use one of %s", name, strings.Join(legNames(), ", "))
	}
	return allLegs[i], nil
}
