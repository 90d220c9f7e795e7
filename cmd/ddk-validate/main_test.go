package main

import (
	"os"
	"slices"
	"testing"

	"ciddk/cmd/ddk-validate/cli"
	"ciddk/validate/suite"
	"ciddk/validate/suite/suitemutants"
	"ciddk/validate/through"
)

// TestMain makes the test's program a daemon process, a worker, or the process that finds a profile, when a run starts
// it again.
func TestMain(m *testing.M) {
	through.Serve(slices.Concat(drivers(), faultyDrivers())...)
	if len(os.Args) > 1 && (os.Args[1] == "worker" || os.Args[1] == "profile") {
		os.Exit(cli.Main(testConfig(), os.Args[1:]))
	}
	m.Run()
}

// testConfig is the program's configuration with the drivers of the tests.
func testConfig() cli.Config {
	return cli.Config{Name: "ddk-validate", Drivers: slices.Concat(drivers(), faultyDrivers()), Suites: suite.All(),
		Mutants: suitemutants.All(), Layers: layers(), Stdout: os.Stdout, Stderr: os.Stderr}
}
