package rchca_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/templates/rchca/target"
	"ciddk/templates/rchca/userlib"
	"ciddk/validate"
	"ciddk/validate/suite/cisuite"
	"ciddk/validate/suite/usersuite"
	"ciddk/validate/through"
)

// someCases are the cases of the tests below. The commands in README.md run all of them.
var someCases = []string{"open.*", "pd.*", "cq.*", "claims.*", "rc.*", "mr.*", "order.*", "events.*"}

// TestThroughUser runs the certifier through a daemon: every verb is a message.
func TestThroughUser(t *testing.T) { testThrough(t) }

// TestThroughBypass runs the certifier through a daemon, with the user library.
func TestThroughBypass(t *testing.T) { testThrough(t, userlib.New()) }

// TestUserMode certifies both halves of the driver, around the process boundary.
func TestUserMode(t *testing.T) {
	skipShort(t)
	catalog, err := validate.NewCatalog(usersuite.Suite())
	require.NoError(t, err)
	validate.TestDriver(t, target.Driver(), validate.TestOptions{Catalog: catalog, Profile: "user"})
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long; run without -short")
	}
}

func testThrough(t *testing.T, libraries ...*ci.UserLibrary) {
	t.Helper()
	skipShort(t)
	b, err := os.ReadFile("testdata/expectations.json")
	require.NoError(t, err)
	known, err := validate.ParseWaivers(b)
	require.NoError(t, err)
	validate.TestDriver(t, through.User(target.Driver(), libraries...), validate.TestOptions{
		Catalog: cisuite.Catalog(), Profile: "minimal", Waivers: known,
		Select: validate.Selection{Cases: someCases}})
}
