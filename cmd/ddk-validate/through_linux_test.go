package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/cmd/ddk-validate/cli"
	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/suite/cisuite"
	"ciddk/validate/through"
)

// TestThroughUser runs cases of every kind of verb through a daemon. The layer is part of the driver's name, so that a
// report can be repeated.
func TestThroughUser(t *testing.T) {
	var out, errs bytes.Buffer
	config := testConfig()
	config.Stdout, config.Stderr = &out, &errs
	for _, args := range [][]string{
		{"run", "reference", "--through", "user"},
		{"run", "reference-through-user"},
	} {
		out.Reset()
		code := cli.Main(config, append(args, "--link", "network", "--in-process", "--profile", "rc", "--quiet",
			"--timeout", "1m", "--case", "rc.*", "--case", "callbacks.*", "--case", "mr.rights", "--case", "order.*"))
		require.Equal(t, validate.ExitCertified, code, "%s%s", out.String(), errs.String())
		assert.Contains(t, out.String(), "reference-through-user")
	}
	code := cli.Main(config, []string{"run", "reference", "--through", "nothing"})
	assert.Equal(t, validate.ExitUsage, code)
	assert.Contains(t, errs.String(), `no layer "nothing"; there are: accesslayer, user, copies, bypass`)
}

// TestThroughBypass runs cases of the data path through the user library of the reference HCA.
func TestThroughBypass(t *testing.T) {
	var out, errs bytes.Buffer
	config := testConfig()
	config.Stdout, config.Stderr = &out, &errs
	code := cli.Main(config, []string{"run", "reference", "--through", "bypass", "--link", "network",
		"--in-process", "--profile", "rc", "--quiet", "--timeout", "1m", "--case", "rc.*", "--case", "rdma.*"})
	assert.Equal(t, validate.ExitCertified, code, "%s%s", out.String(), errs.String())
}

// TestThroughServices runs the cases of connection management and of management datagrams with the daemon's services,
// and the profile's demands, of which the layer withholds some.
func TestThroughServices(t *testing.T) {
	testenv.Long(t)
	var out, errs bytes.Buffer
	config := testConfig()
	config.Stdout, config.Stderr = &out, &errs
	file := filepath.Join(t.TempDir(), "report.json")
	code := cli.Main(config, []string{"run", "reference", "--through", "user,accesslayer", "--link", "network",
		"--profile", "cm", "--in-process", "--quiet", "--timeout", "1m",
		"--case", "mad.gsi.*", "--case", "cm.connect*"})
	require.Equal(t, validate.ExitCertified, code, "%s%s", out.String(), errs.String())
	code = cli.Main(config, []string{"run", "reference", "--through", "user", "--link", "direct", "--profile", "cm",
		"--in-process", "--quiet", "--case", "cm.*", "--case", "mad.gsi.*", "--case", "mad.smi.*",
		"--case", "claims.profile", "--json", file})
	require.Equal(t, validate.ExitCertified, code, "%s%s", out.String(), errs.String())
	var rep validate.Report
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &rep))
	passed := 0
	for _, r := range rep.Results {
		if r.Status == validate.Skip { // such a case needs services with settings or adapters of its own
			assert.Contains(t, r.Reason, "in another process", r.Case)
			continue
		}
		assert.Equal(t, validate.Pass, r.Status, "%s: %s", r.Case, r.Reason)
		passed++
	}
	assert.Greater(t, passed, 25)
}

// TestThroughTools runs cases that use the tools of a target through the process boundary: an end of the link, a link
// that loses packets, and a link that is taken down. The packets are captured.
func TestThroughTools(t *testing.T) {
	testenv.Long(t)
	var out, errs bytes.Buffer
	config := testConfig()
	config.Stdout, config.Stderr = &out, &errs
	dir := t.TempDir()
	code := cli.Main(config, []string{"run", "reference", "--through", "user", "--link", "udp", "--profile", "full",
		"--quiet", "--case", "wire.form.*", "--case", "events.*", "--case", "impair.rc.send.*", "--case", "claims.*",
		"--exclude", "claims.profile",
		"--case", "rc.send.*", "--pcap", dir, "--pcap-all"})
	require.NotContains(t, out.String(), "cannot impair")
	files, err := filepath.Glob(filepath.Join(dir, "*.pcapng"))
	require.NoError(t, err)
	assert.NotEmpty(t, files)
	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(t, err)
		assert.NotZero(t, info.Size(), f)
	}
	assert.Equal(t, validate.ExitCertified, code, "%s%s", out.String(), errs.String())
}

// TestThroughFaults runs a case on drivers that end, stop or attack the process that they run in. The case fails with a
// finding that names the cause, and no forged result is accepted.
func TestThroughFaults(t *testing.T) {
	for _, x := range []struct {
		driver string
		cause  validate.Cause
		got    string
	}{
		{"faulty-panic", validate.CausePanic, "panic: a fault of the driver"},
		{"faulty-exit", validate.CauseDeath, "exit status 0"},
		{"faulty-close", validate.CauseDeath, "closed its socket"},
		{"faulty-hang", validate.CauseHang, "hang"},
		{"faulty-forge", "", ""},
	} {
		t.Run(x.driver, func(t *testing.T) {
			var out, errs bytes.Buffer
			config := testConfig()
			config.Stdout, config.Stderr = &out, &errs
			file := filepath.Join(t.TempDir(), "report.json")
			code := cli.Main(config, []string{"run", x.driver, "--through", "user", "--link", "network", "--profile",
				"minimal", "--case", "cq.create*", "--quiet", "--timeout", "1s", "--json", file})
			assert.Equal(t, validate.ExitFailed, code, "%s%s", out.String(), errs.String())
			var rep validate.Report
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &rep))
			require.NotEmpty(t, rep.Results)
			for _, r := range rep.Results {
				assert.Equal(t, validate.Fail, r.Status, r.Case)
				require.NotEmpty(t, r.Failures, r.Case)
				if x.cause != "" {
					assert.Equal(t, x.cause, r.Failures[0].Cause, r.Case)
				}
				assert.Contains(t, r.Failures[0].Got, x.got, r.Case)
			}
		})
	}
}

// TestThroughTestDriver certifies a driver behind a daemon with validate.TestDriver.
func TestThroughTestDriver(t *testing.T) {
	validate.TestDriver(t, through.User(drivers()[0]), validate.TestOptions{Catalog: cisuite.Catalog(), Link: "network",
		Select: validate.Selection{Cases: []string{"rc.send.*", "open.*"}}})
}

// TestThroughTwice puts a daemon in front of a daemon. Memory of the worker cannot be registered through two.
func TestThroughTwice(t *testing.T) {
	var out, errs bytes.Buffer
	config := testConfig()
	config.Stdout, config.Stderr = &out, &errs
	code := cli.Main(config, []string{"run", "reference", "--through", "user", "--through", "user", "--link",
		"network", "--profile", "minimal", "--case", "cq.create*", "--quiet"})
	assert.Equal(t, validate.ExitCertified, code, "%s%s", out.String(), errs.String())
	assert.Contains(t, out.String(), "reference-through-user-through-user", out.String())
}
