package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/cmd/ddk-validate/cli"
	"ciddk/validate"
	"ciddk/validate/suite"
)

// TestThroughUser runs cases of every kind of verb through a daemon. The layer is part of the driver's name, so that a
// report can be repeated.
func TestThroughUser(t *testing.T) {
	var out, errs bytes.Buffer
	config := cli.Config{
		Name: "ddk-validate", Drivers: drivers(), Suites: suite.All(), Layers: layers(), Stdout: &out, Stderr: &errs,
	}
	for _, args := range [][]string{
		{"run", "reference", "--through", "user"},
		{"run", "reference-through-user"},
	} {
		out.Reset()
		code := cli.Main(config, append(args, "--link", "network", "--in-process", "--profile", "rc", "--quiet",
			"--case", "rc.*", "--case", "callbacks.*", "--case", "mr.rights", "--case", "order.*"))
		require.Equal(t, validate.ExitCertified, code, "%s%s", out.String(), errs.String())
		assert.Contains(t, out.String(), "reference-through-user")
	}
	code := cli.Main(config, []string{"run", "reference", "--through", "nothing"})
	assert.Equal(t, validate.ExitUsage, code)
	assert.Contains(t, errs.String(), `no layer "nothing"; there are: user, bypass`)
}

// TestThroughBypass runs cases of the data path through the user library of the reference HCA.
func TestThroughBypass(t *testing.T) {
	var out, errs bytes.Buffer
	code := cli.Main(cli.Config{Name: "ddk-validate", Drivers: drivers(), Suites: suite.All(), Layers: layers(),
		Stdout: &out, Stderr: &errs}, []string{"run", "reference", "--through", "bypass", "--link", "network",
		"--in-process", "--profile", "rc", "--quiet", "--case", "rc.*", "--case", "rdma.*"})
	assert.Equal(t, validate.ExitCertified, code, "%s%s", out.String(), errs.String())
}
