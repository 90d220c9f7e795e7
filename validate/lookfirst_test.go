package validate

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate/req"
)

// failures returns a report in which the cases have failed, those with a "~" in their set-up.
func failures(ids ...string) *Report {
	r := &Report{Run: RunInfo{Driver: "d", Profile: "rc"}}
	for _, id := range ids {
		id, setup := strings.CutPrefix(id, "~")
		r.Results = append(r.Results,
			Result{Case: id, Level: req.Must, Status: Fail, Failures: []Failure{{Setup: setup}}})
	}
	r.setVerdict()
	return r
}

// rows returns n ids of an area.
func rows(area string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s.%d", area, i+1))
	}
	return ids
}

func TestLookFirst(t *testing.T) {
	resetting := []string{"post.state.rc.resetting", "post.state.uc.resetting", "post.state.ud.resetting"}
	for _, c := range []struct {
		name  string
		cases []string
		first string   // in the order of causes
		want  []string // Verdict.LookFirst
	}{
		{"memory fails because posting does", slices.Concat(rows("mr", 12), resetting), resetting[0],
			[]string{strings.Join(resetting,
				", ") + ": 12 later failures are of features that stand on this one (posting)"}},
		{"one failure explains no other", []string{"mr.1"}, "mr.1", nil},
		{"equals explain no others", rows("mr", 5), "mr.1", nil},
		{"a failure of the set-up is no cause", []string{"~open.1", "~qp.create", "cq.create.0", "mr.1"}, "cq.create.0",
			[]string{"cq.create.0: 2 later failures are of features that stand on this one (completion queues)"}},
		{"only set-ups failed", []string{"~mr.1", "~post.1"}, "post.1",
			[]string{"post.1: 1 later failure is of features that stand on this one (posting)"}},
		{"two causes", []string{"wire.ack", "mcast.many", "mr.1", "ud.qkey", "sma.key"}, "sma.key", []string{
			"mr.1: 1 later failure is of features that stand on this one (memory)",
			"ud.qkey: 2 later failures are of features that stand on this one (datagrams)"}},
		{"the rest is counted", append(rows("qp", 5), "stale.cq"), "qp.1",
			[]string{"qp.1, qp.2, qp.3 and 2 more: 1 later failure is of features that stand on this one " +
				"(states of queue pairs)"}},
		{"claims that are tested by use come last", []string{"claims.works.fmr", "mr.fmr.1"}, "mr.fmr.1",
			[]string{"mr.fmr.1: 1 later failure is of features that stand on this one (memory)"}},
		{"areas of other suites come last", []string{"acme.1", "mr.1"}, "mr.1",
			[]string{"mr.1: 1 later failure is of features that stand on this one (memory)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := failures(c.cases...)
			assert.Equal(t, c.want, r.Verdict.LookFirst)
			assert.Equal(t, c.first, r.ByCause()[0].Case)
		})
	}
}

// TestLookFirstPasses checks that cases that do not deny the certificate are no cause.
func TestLookFirstPasses(t *testing.T) {
	r := failures("open.1", "mr.1")
	r.Results[0].Level = req.Should
	r.setVerdict()
	assert.Empty(t, r.Verdict.LookFirst)
}

// TestSubjects checks that subjects stand on earlier ones, by their exact names, and that each case of the kit has one.
func TestSubjects(t *testing.T) {
	var names []string
	for _, s := range subjects {
		if s.on != "" {
			assert.Subset(t, names, strings.Split(s.on, ", "), s.name)
		}
		names = append(names, s.name)
	}
	ids, err := os.ReadFile("../cmd/ddk-validate/testdata/ids.txt")
	require.NoError(t, err)
	found := map[string]bool{}
	for line := range strings.Lines(string(ids)) {
		if id, isCase := strings.CutPrefix(strings.TrimSpace(line), "case "); isCase {
			id, _, _ = strings.Cut(id, " ")
			_, area := subjectOf(id)
			assert.NotEmpty(t, area, id)
			found[area] = true
		}
	}
	for _, s := range subjects {
		for area := range strings.FieldsSeq(s.areas) {
			assert.True(t, found[area], "no case has the area %s", area)
		}
	}
	for i := range subjects {
		for j := range subjects {
			assert.False(t, standsOn[i][j] && standsOn[j][i], "%s, %s", subjects[i].name, subjects[j].name)
		}
	}
}
