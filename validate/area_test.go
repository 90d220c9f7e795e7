package validate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/req"
)

// declared is an area declared as in a suite, with package-level variables.
var declared = &validate.Area{
	Scope:    req.AccessLayer,
	Complete: func(c *validate.Case) { c.Feature = validate.FeatureCM },
}

var CMTest01 = declared.Must("CM-Test-01", "IBTA 12.6", "a source", "One sentence.")

var _ = declared.Case(validate.Case{ID: "area.one", Title: "first", Run: func(*validate.T) {}}, CMTest01)

var CMTest02 = declared.Should("CM-Test-02", "IBTA 12.6", "a source", "Another sentence.")

var _ = declared.Case(validate.Case{ID: "area.two", Title: "second", Run: func(*validate.T) {}}, CMTest02, CMTest01)

func TestArea(t *testing.T) {
	s := validate.NewSuite("test", declared)
	require.Len(t, s.Cases, 2)
	assert.Equal(t, "test", s.Name)
	assert.Equal(t, "area.one", s.Cases[0].ID)
	assert.Equal(t, []string{"CM-Test-02", "CM-Test-01"}, s.Cases[1].Requirements)
	assert.Equal(t, validate.FeatureCM, s.Cases[1].Feature)
	assert.Equal(t, []req.Requirement{
		{
			ID: "CM-Test-01", Text: "One sentence.", Level: req.Must, Section: "IBTA 12.6", Source: "a source",
			Scope: req.AccessLayer,
		},
		{
			ID: "CM-Test-02", Text: "Another sentence.", Level: req.Should, Section: "IBTA 12.6", Source: "a source",
			Scope: req.AccessLayer,
		},
	}, s.Requirements)
	c, err := validate.NewCatalog(s)
	require.NoError(t, err)
	assert.Len(t, c.Cases(), 2)
}

func TestAreaMistakes(t *testing.T) {
	var a validate.Area
	r := a.Must("CM-Test-03", "IBTA 12.6", "", "A sentence.")
	assert.Equal(t, req.Driver, r.Scope)
	assert.PanicsWithValue(t, "validate: case a.b: requirement 2 is nil",
		func() { a.Case(validate.Case{ID: "a.b"}, r, nil) })
	assert.PanicsWithValue(t, "validate: case a.b: Requirements is set; pass requirements to Area.Case",
		func() { a.Case(validate.Case{ID: "a.b", Requirements: []string{"X"}}, r) })
	assert.Empty(t, a.Suite().Cases)
}

// TestMatrix checks that each row becomes a case with its requirements, in order, and that a row without a requirement
// panics.
func TestMatrix(t *testing.T) {
	a := &validate.Area{}
	rule, other := a.Must("CI-Row-01", "CI", "x", "One."), a.Must("CI-Row-02", "CI", "x", "Two.")
	rows := []string{"b", "a"}
	list := validate.Matrix(a, rows, func(r string) (validate.Case, []*req.Requirement) {
		return validate.Case{ID: "x." + r, Title: r, Run: func(*validate.T) {}}, []*req.Requirement{rule, other}
	})
	cases := a.Suite().Cases
	require.Len(t, cases, len(rows))
	require.Len(t, list, len(rows))
	for i, r := range rows {
		assert.Equal(t, "x."+r, cases[i].ID)
		assert.Equal(t, []string{rule.ID, other.ID}, cases[i].Requirements)
		assert.Equal(t, cases[i].ID, list[i].ID)
	}
	assert.Panics(t, func() {
		validate.Matrix(a, rows, func(r string) (validate.Case, []*req.Requirement) {
			return validate.Case{ID: "y." + r}, nil
		})
	})
}
