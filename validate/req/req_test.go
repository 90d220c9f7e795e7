package req

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSAS(t *testing.T) {
	b, err := NewBook(SAS())
	require.NoError(t, err)
	all := b.All()
	require.Len(t, all, 92)
	count := map[string]int{}
	for _, r := range all {
		count[r.Section]++
	}
	assert.Equal(t, map[string]int{"SAS 0": 5, "SAS 2.1": 31, "SAS 2.2": 10, "SAS 2.3": 28, "SAS 2.4": 18}, count)
	assert.Equal(t, "SAS-0-01", all[0].ID)
	assert.Equal(t, "SAS-2.4-18", all[91].ID)
}

func TestParseTable(t *testing.T) {
	list, err := AccessLayer.ParseTable("# id\n\nCI-A-01\tCI context\tal\tOne sentence.\n")
	require.NoError(t, err)
	assert.Equal(t, []Requirement{AccessLayer.Must("CI-A-01", "CI context", "al", "One sentence.")}, list)
	_, err = AccessLayer.ParseTable("CI-A-01\tCI context\tOne sentence.\n")
	assert.EqualError(t, err, `requirements: "CI-A-01": 3 columns, want id, section, source and sentence`)
}

func TestBookRejects(t *testing.T) {
	ok := Requirement{ID: "CI-CreateCQ-01", Text: "x", Level: Must, Section: "IBTA 11.2.6", Scope: Driver}
	_, err := NewBook([]Requirement{ok})
	require.NoError(t, err)
	for name, change := range map[string]func(*Requirement){
		"form of id": func(r *Requirement) { r.ID = "CI-create-cq-1" },
		"text":       func(r *Requirement) { r.Text = " " },
		"level":      func(r *Requirement) { r.Level = 9 },
		"section":    func(r *Requirement) { r.Section = "chapter 11" },
		"scope":      func(r *Requirement) { r.Scope = "" },
	} {
		bad := ok
		change(&bad)
		_, err := NewBook([]Requirement{bad})
		assert.Error(t, err, name)
	}
	_, err = NewBook([]Requirement{ok}, []Requirement{ok})
	assert.ErrorContains(t, err, "declared twice")
}

func TestOrder(t *testing.T) {
	ids := []string{"IBTA-10.3-01", "CI-PollCQ-10", "SAS-2.1-09", "CI-PollCQ-09", "IBTA-9.7-01", "SAS-2.1-10"}
	slices.SortFunc(ids, CompareIDs)
	assert.Equal(t, []string{
		"SAS-2.1-09", "SAS-2.1-10", "CI-PollCQ-09", "CI-PollCQ-10", "IBTA-9.7-01", "IBTA-10.3-01",
	}, ids)
	groups := []string{
		"CI contract", "IBTA 10.3 QP states", "SAS 2.1 deviations from IBTA", "IBTA 9.7 reliable service",
	}
	slices.SortFunc(groups, CompareGroups)
	assert.Equal(t, []string{
		"SAS 2.1 deviations from IBTA", "IBTA 9.7 reliable service", "IBTA 10.3 QP states", "CI contract",
	}, groups)
}

func TestGroup(t *testing.T) {
	for section, want := range map[string]string{
		"IBTA 11.2.8.1": "IBTA 11.2 resource verbs", "SAS 2.1": "SAS 2.1 deviations from IBTA",
		"CI claims": "CI contract",
		"IBTA 12.9": "IBTA 12.9 CM states", "IBTA 12.99": "IBTA 12.99", "SAS 0": "SAS 0 scope",
	} {
		assert.Equal(t, want, Requirement{Section: section}.Group(), section)
	}
}

func TestLevelText(t *testing.T) {
	for _, l := range []Level{Must, Should, May, Info} {
		b, err := l.MarshalText()
		require.NoError(t, err)
		var got Level
		require.NoError(t, got.UnmarshalText(b))
		assert.Equal(t, l, got)
	}
	var l Level
	assert.Error(t, l.UnmarshalText([]byte("NEVER")))
}
