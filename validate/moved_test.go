package validate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMovedCases(t *testing.T) {
	list, err := ParseMoved("# a comment\n\na.gone SAS-2.1-27 sa.TestA sa/x.TestB\na.here SAS-2.1-27 a.b\n")
	require.NoError(t, err)
	_, err = ParseMoved("a.gone SAS-2.1-27\n")
	require.EqualError(t, err, `moved cases: "a.gone": want a case, its requirement and its successors`)
	run := func(*T) {}
	cases := []Case{NewCase("a.b", "x", FeatureCore, run, "SAS-2.1-26")}
	c, err := NewCatalog(Suite{Cases: cases, Moved: list})
	require.NoError(t, err)
	m, ok := c.Moved("a.gone")
	require.True(t, ok)
	command, isTest := m.Test(m.To[1])
	assert.True(t, isTest)
	assert.Equal(t, "go test ./sa/x -run '^TestB$'", command)
	_, isTest = m.Test("a.b")
	assert.False(t, isTest)
	for _, r := range c.Coverage() {
		if r.ID == "SAS-2.1-27" {
			assert.Equal(t,
				"a rule of the kit's own code, which no driver can break; tested by sa.TestA, sa/x.TestB, a.b",
				r.Why)
		}
	}

	_, err = c.Select(Selection{Cases: []string{"a.gone"}})
	require.EqualError(t, err, `no case matches "a.gone"; case a.gone has left the catalog, and its subject is tested `+
		"by sa.TestA, sa/x.TestB")
	_, err = c.Select(Selection{Cases: []string{"a.[gh]*"}})
	require.ErrorContains(t, err, "so have 1 others that match")
	cs, err := c.Select(Selection{Exclude: []string{"a.gone"}})
	require.NoError(t, err)
	assert.Len(t, cs, 1)
	_, err = c.Select(Selection{Exclude: []string{"a.none"}})
	require.Error(t, err)

	for want, m := range map[string]Moved{
		`moved case "a.b": not the id of one case that is not in the catalog`: {"a.b", "SAS-2.1-27", []string{"a.b"}},
		"moved case a.c: unknown requirement SAS-9-99":                        {"a.c", "SAS-9-99", []string{"a.b"}},
		`moved case a.c: no case "a.d"`:                                       {"a.c", "SAS-2.1-27", []string{"a.d"}},
		"moved case a.c: no successor":                                        {"a.c", "SAS-2.1-27", nil},
	} {
		_, err := NewCatalog(Suite{Cases: cases, Moved: []Moved{m}})
		assert.ErrorContains(t, err, want)
	}
}
