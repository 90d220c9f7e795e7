package rdmatest_test

import (
	"flag"
	"fmt"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// passes runs a test inside of an example, without output of its own unless it fails.
func passes(f func(*testing.T)) bool {
	verbose := flag.Lookup("test.v").Value
	before := fmt.Sprint(verbose.(flag.Getter).Get())
	defer func() { _ = verbose.Set(before) }()
	_ = verbose.Set("false")
	all := func(string, string) (bool, error) { return true, nil }
	return testing.RunTests(all, []testing.InternalTest{{Name: "Test", F: f}})
}
