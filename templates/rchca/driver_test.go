package rchca_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/templates/rchca/target"
	"ciddk/validate"
	"ciddk/validate/suite/cisuite"
	"ciddk/validate/suite/smasuite" // sma.go
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDriver runs the certifier: a subtest for each case.
func TestDriver(t *testing.T) {
	b, err := os.ReadFile("testdata/expectations.json")
	require.NoError(t, err)
	known, err := validate.ParseWaivers(b)
	require.NoError(t, err)
	suites := []validate.Suite{cisuite.Suite()}
	suites = append(suites, smasuite.Suite()) // sma.go
	catalog, err := validate.NewCatalog(suites...)
	require.NoError(t, err)
	validate.TestDriver(t, target.Driver(), validate.TestOptions{Catalog: catalog, Profile: "claimed",
		Waivers: known})
}
