package validate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseWaivers(t *testing.T) {
	ws, err := ParseWaivers([]byte(`{"schema":"ddk-validate/expectations/v1","waivers":{
		"rc.*":"no firmware yet", "cq.a":{"reason":"ticket 1","expires":"2027-03-31"}}}`))
	require.NoError(t, err)
	assert.Equal(t, []Waiver{{Pattern: "rc.*", Reason: "no firmware yet"},
		{Pattern: "cq.a", Reason: "ticket 1", Expires: time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)}}, ws)

	for name, x := range map[string]struct{ file, want string }{
		"no reason":     {`{"a.b":""}`, "the reason is empty"},
		"blank reason":  {`{"a.b":{"reason":"\t"}}`, "the reason is empty"},
		"doubled key":   {`{"a.b":"x","a.b":"y"}`, `duplicate waiver "a.b"`},
		"bad glob":      {`{"[":"x"}`, "not a valid glob"},
		"empty glob":    {`{"":"x"}`, "not a valid glob"},
		"bad date":      {`{"a.b":{"reason":"x","expires":"soon"}}`, "not a date"},
		"unknown field": {`{"a.b":{"reason":"x","until":"2027-01-01"}}`, "unknown field"},
		"a number":      {`{"a.b":7}`, "want a reason"},
		"an array":      {`["a.b"]`, "not an object"},
		"null":          {`null`, "not an object"},
	} {
		_, err := ParseWaivers([]byte(`{"schema":"ddk-validate/expectations/v1","waivers":` + x.file + `}`))
		if assert.Error(t, err, name) {
			assert.Contains(t, err.Error(), x.want, name)
		}
	}
	for name, file := range map[string]string{
		"other schema": `{"schema":"x","waivers":{}}`,
		"no waivers":   `{"schema":"ddk-validate/expectations/v1"}`,
		"no JSON":      `waivers:`,
		"trailing":     `{"schema":"ddk-validate/expectations/v1","waivers":{}} {}`,
		"unknown":      `{"schema":"ddk-validate/expectations/v1","waiver":{}}`,
	} {
		_, err := ParseWaivers([]byte(file))
		assert.Error(t, err, name)
	}
}

func TestApplyWaivers(t *testing.T) {
	day := time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)
	results := func() []Result {
		return []Result{
			{Case: "a.x", Status: Fail}, {Case: "a.y", Status: Pass}, {Case: "b.z", Status: Fail},
			{Case: "b.e", Status: Error}, {Case: "b.s", Status: Skip},
		}
	}
	rs := results()
	assert.Empty(t, (&Catalog{}).applyWaivers(rs, []Waiver{{Pattern: "a.x", Reason: "r"}}, day))
	assert.Equal(t, Waived, rs[0].Status)
	assert.Equal(t, "r", rs[0].Reason)
	assert.Equal(t, Fail, rs[2].Status)

	rs = results()
	remarks := (&Catalog{}).applyWaivers(rs, []Waiver{{Pattern: "*", Reason: "all"}}, day)
	got := []Status{rs[0].Status, rs[1].Status, rs[2].Status, rs[3].Status, rs[4].Status}
	assert.Equal(t, []Status{Waived, Pass, Waived, Error, Skip}, got, "an error of the certifier is never waived")
	require.Len(t, remarks, 1)
	assert.Contains(t, remarks[0], "these cases passed: a.y")

	// The waiver applies on its last day, and not on the next.
	w := []Waiver{{Pattern: "a.x", Reason: "r", Expires: day}}
	rs = results()
	assert.Empty(t, (&Catalog{}).applyWaivers(rs, w, day.Add(23*time.Hour+59*time.Minute)))
	assert.Equal(t, Waived, rs[0].Status)
	rs = results()
	remarks = (&Catalog{}).applyWaivers(rs, w, day.AddDate(0, 0, 1))
	assert.Equal(t, Fail, rs[0].Status)
	require.Len(t, remarks, 1)
	assert.Contains(t, remarks[0], "expired on 2027-03-31")

	assert.Contains(t, (&Catalog{}).applyWaivers(results(), []Waiver{{Pattern: "z.*", Reason: "r"}}, day)[0],
		"matches no case")
	left := &Catalog{moved: map[string]Moved{"z.x": {"z.x", "R", []string{"sa.TestX"}}}}
	for _, pattern := range []string{"z.x", "z.*"} {
		assert.Equal(t,
			[]string{fmt.Sprintf("the waiver %q can be removed: case z.x has left the catalog, and its subject "+
				"is tested by sa.TestX", pattern)}, left.applyWaivers(results(), []Waiver{{Pattern: pattern,
				Reason: "r"}}, day))
	}
}

func FuzzParseWaivers(f *testing.F) {
	f.Add([]byte(`{"schema":"ddk-validate/expectations/v1",` +
		`"waivers":{"rc.*":"why","a.b":{"reason":"x","expires":"2027-03-31"}}}`))
	f.Add([]byte(`{"schema":"ddk-validate/expectations/v1","waivers":{"a":"b","a":"c"}}`))
	f.Add([]byte(`{"waivers":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		ws, err := ParseWaivers(b)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, w := range ws {
			if w.Reason == "" || w.Pattern == "" || seen[w.Pattern] {
				t.Fatalf("accepted %+v", w)
			}
			seen[w.Pattern] = true
			glob(w.Pattern, "rc.send")
		}
	})
}
