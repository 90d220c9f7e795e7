package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/kproxy"
)

// TestServe runs the daemon with a configuration file, uses it, prints its status, and stops it.
func TestServe(t *testing.T) {
	path := socket(t)
	file := filepath.Join(t.TempDir(), "ddkd.yaml")
	text := "mode: \"0600\"\nadapters:\n  - link: network\n    address: 10.0.0.1\ndrain: 10ms\nquota:\n  qps: 2\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int, 1)
	var log bytes.Buffer
	go func() { done <- run(ctx, []string{"serve", "--config", file}, io.Discard, &log) }()
	c := dial(t)
	x, err := newLoop(c)
	require.NoError(t, err)
	require.NoError(t, x.transfer())
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	var out, errs bytes.Buffer
	require.Zero(t, run(ctx, []string{"status"}, &out, &errs), errs.String())
	for _, want := range []string{"10.0.0.1", "Active", "qp:2", "mr:2", "TestServe"} {
		assert.Contains(t, out.String(), want)
	}
	out.Reset()
	require.Zero(t, run(ctx, []string{"status", "--json"}, &out, &errs), errs.String())
	var st kproxy.Status
	require.NoError(t, json.Unmarshal(out.Bytes(), &st))
	require.Len(t, st.Clients, 2)
	assert.Equal(t, map[string]int{"event queue": 2, "ca": 1, "pd": 1, "cq": 1, "qp": 2, "mr": 2},
		st.Clients[0].Objects)
	assert.Equal(t, os.Getpid(), st.Clients[0].PID)
	assert.EqualValues(t, 2, st.Clients[0].Completions)

	stop()
	assert.Zero(t, <-done, log.String())
	require.NoError(t, c.Close())
	require.NoError(t, x.shared.Close())
	assert.NoFileExists(t, path)
}

// TestUsage checks that mistakes are reported with what to change.
func TestUsage(t *testing.T) {
	socket(t)
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("colour: red\n"), 0o600))
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"serve"}, 2, "add one with --adapter"},
		{[]string{"serve", "--config", bad}, 2, "colour"},
		{[]string{"serve", "--adapter", "address"}, 2, "key=value"},
		{[]string{"serve", "--adapter", "colour=red"}, 2, "no key"},
		{[]string{"serve", "--adapter", "driver=acme,address=10.0.0.1"}, 2, "this program has software"},
		{[]string{"serve", "--adapter", "address=10.0.0.1,port=70000"}, 2, "1 to 65535"},
		{[]string{"serve", "--adapter", "address=10.0.0.300"}, 2, "adapter 1"},
		{[]string{"serve", "--adapter", "link=rope,address=10.0.0.1"}, 2, "there are udp, network"},
		{[]string{"serve", "--adapter", "link=network"}, 2, "address or interface"},
		{[]string{"serve", "--mode", "999", "--adapter", "address=10.0.0.1"}, 2, "octal"},
		{[]string{"serve", "--log", "loud", "--adapter", "address=10.0.0.1"}, 2, "debug, info"},
		{[]string{"serve", "--adapter", "address=203.0.113.77"}, 1, "adapter 1"},
		{[]string{"serve", "--socket", bad, "--adapter", "link=network,address=10.0.0.1"}, 1, "no socket"},
		{[]string{"status"}, 1, "is the daemon running?"},
		{[]string{"nothing"}, 2, "nothing"},
	} {
		var errs bytes.Buffer
		assert.Equal(t, x.code, run(t.Context(), x.args, io.Discard, &errs), "%v: %s", x.args, errs.String())
		assert.Contains(t, errs.String(), x.want, "%v", x.args)
	}
}
