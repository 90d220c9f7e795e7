package validate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A subject is what cases with certain first words of their ids are about. A case uses the subjects that its own stands
// on, so that a fault in one of those makes it fail, too.
type subject struct {
	name  string
	on    string // names of the subjects that it stands on directly
	areas string // beginnings of ids of cases; the longest one that matches decides
}

// subjects are in order of dependency: each stands on earlier ones only. The last one stands on everything.
var subjects = []subject{
	{"opening", "", "open query contract"},
	{"claims", "opening", "claims args rd"},
	{"ports", "opening", "ca mad pma"},
	{"subnet management", "ports", "sma"},
	{"protection domains", "opening", "pd av"},
	{"completion queues", "protection domains", "cq"},
	{"states of queue pairs", "completion queues", "qp"},
	{"posting", "states of queue pairs", "post"},
	{"reliable connections", "posting", "rc opcode"},
	{"memory", "reliable connections", "mr rdma flush"},
	{"atomics", "memory", "atomic atomic-write"},
	{"shared receive queues", "reliable connections", "srq"},
	{"windows", "memory", "mw mw2"},
	{"unreliable connections", "memory", "uc"},
	{"datagrams", "posting", "ud"},
	{"multicast", "datagrams", "mcast"},
	{"special queue pairs", "datagrams, ports", "special"},
	{"events", "reliable connections, ports", "events callbacks"},
	{"faults", "memory", "fault impair"},
	{"path migration", "reliable connections, events", "apm"},
	{"access layer", "reliable connections, events", "al"},
	{"connections", "access layer, special queue pairs", "cm"},
	{"user mode", "memory, events", "user"},
	{"packets", "memory, datagrams", "wire peer"},
	{"all verbs", "", "nil stale order foreign limits teardown model claims.works"},
}

// standsOn[i][j] reports whether subject i stands on subject j, directly or not.
var standsOn = func() [][]bool {
	all := make([][]bool, len(subjects))
	for i, s := range subjects {
		all[i] = make([]bool, len(subjects))
		for j := range i {
			if i < len(subjects)-1 && !slices.Contains(strings.Split(s.on, ", "), subjects[j].name) {
				continue
			}
			all[i][j] = true
			for k := range j {
				all[i][k] = all[i][k] || all[j][k]
			}
		}
	}
	return all
}()

// subjectOf returns the index of a case's subject and the area that decides it. Cases of suites that are not the kit's
// have the last subject and no area.
func subjectOf(id string) (index int, area string) {
	index = len(subjects) - 1
	for i, s := range subjects {
		for a := range strings.FieldsSeq(s.areas) {
			if strings.HasPrefix(id+".", a+".") && len(a) > len(area) {
				index, area = i, a
			}
		}
	}
	return index, area
}

// ByCause returns the results so that likely causes precede their consequences: first those that failed in what they
// test, in order of dependency, and then those that failed in their set-up. It keeps the order of equals.
func (r *Report) ByCause() []*Result {
	out := make([]*Result, len(r.Results))
	for i := range r.Results {
		out[i] = &r.Results[i]
	}
	slices.SortStableFunc(out, func(a, b *Result) int {
		subjectA, _ := subjectOf(a.Case)
		subjectB, _ := subjectOf(b.Case)
		return cmp.Or(cmp.Compare(setupRank(a), setupRank(b)), cmp.Compare(subjectA, subjectB))
	})
	return out
}

// setupRank returns 1 for a case that failed in its set-up, which says nothing about its own subject.
func setupRank(x *Result) int {
	if len(x.Failures) > 0 && x.Failures[0].Setup {
		return 1
	}
	return 0
}

// Limits of LookFirst, which is to be read at a glance.
const (
	maxRoots     = 3
	maxRootCases = 3
)

// lookFirst returns a line for each subject with failures on which other failed cases stand, and that stands on no
// subject with failures itself.
func (r *Report) lookFirst() []string {
	failed := make([][]string, len(subjects))
	tested := make([]bool, len(subjects)) // a case failed in what it tests
	for _, x := range r.ByCause() {
		if r.Decisive(x) {
			s, _ := subjectOf(x.Case)
			failed[s] = append(failed[s], x.Case)
			tested[s] = tested[s] || setupRank(x) == 0
		}
	}
	if !slices.Contains(tested, true) {
		for s := range tested {
			tested[s] = len(failed[s]) > 0
		}
	}
	var out []string
	for s, ids := range failed {
		if later := later(failed, s); tested[s] && !standsOnAny(s, tested) && later > 0 && len(out) < maxRoots {
			out = append(out, rootLine(s, ids, later))
		}
	}
	return out
}

// later returns the number of failures of subjects that stand on subject s.
func later(failed [][]string, s int) (n int) {
	for i := range failed {
		if standsOn[i][s] {
			n += len(failed[i])
		}
	}
	return n
}

// standsOnAny reports whether subject s stands on one of those that are set.
func standsOnAny(s int, set []bool) bool {
	for i, isSet := range set {
		if isSet && standsOn[s][i] {
			return true
		}
	}
	return false
}

func rootLine(s int, ids []string, later int) string {
	text := strings.Join(ids[:min(len(ids), maxRootCases)], ", ")
	if more := len(ids) - maxRootCases; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	verb := "failures are"
	if later == 1 {
		verb = "failure is"
	}
	return fmt.Sprintf("%s: %d later %s of features that stand on this one (%s)", text, later, verb, subjects[s].name)
}
