package cli_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/kproxy/native"
)

// TestStartErrors checks that each obstacle at the start is reported with what to change.
func TestStartErrors(t *testing.T) {
	path := socket(t)
	const addr = "127.0.0.97"
	taken, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(addr)})
	require.NoError(t, err)
	defer taken.Close()
	port := strconv.Itoa(taken.LocalAddr().(*net.UDPAddr).Port)
	other := filepath.Join(filepath.Dir(path), "stream")
	stream, err := net.Listen("unix", other)
	require.NoError(t, err)
	defer stream.Close()
	file := filepath.Join(filepath.Dir(path), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	network := []string{"--adapter", "link=network,address=10.0.0.1"}
	for _, x := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--adapter", "address=203.0.113.77"}, 1, []string{"203.0.113.77", "an address of this machine"}},
		{[]string{"--adapter", "address=" + addr + ",port=" + port}, 1, []string{addr + ":" + port, "in use"}},
		{[]string{"--adapter", "interface=nope0"}, 1, []string{"nope0", "interfaces here: ", "lo"}},
		{[]string{"--adapter", "driver=acme,address=10.0.0.1"}, 2, []string{`no driver "acme"`, "software"}},
		{append(network, "--socket", file), 1, []string{"is no socket", "--socket"}},
		{append(network, "--socket", other), 1, []string{"another program", "--socket"}},
		{append(network, "--socket", file+"/socket"), 1, []string{"not a directory", "--socket"}},
		{append(network, "--metrics", "203.0.113.77:1"), 1, []string{"metrics", "--metrics"}},
		{append(network, "--metrics", "unix:"+other), 1, []string{"is running", "--metrics"}},
		{append(network, "--metrics", "nowhere"), 2, []string{"ADDRESS:PORT"}},
		{append(network, "--group", "no-such-group-here"), 2, []string{"no such group", "groupadd"}},
		{append(network, "--quota-qps", "many"), 2, []string{"--quota-qps"}},
	} {
		var errs bytes.Buffer
		code := run(t.Context(), append([]string{"serve"}, x.args...), io.Discard, &errs)
		assert.Equal(t, x.code, code, "%v: %s", x.args, errs.String())
		for _, want := range x.want {
			assert.Contains(t, errs.String(), want, "%v", x.args)
		}
		assert.NoFileExists(t, path, "%v", x.args)
	}
}

// TestSocketTaken starts a second daemon, which reports the first one, and one after a daemon that was killed, which
// replaces the socket. The socket has the group and the mode of the configuration.
func TestSocketTaken(t *testing.T) {
	path := socket(t)
	l, err := native.Listen(path)
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close()) // what a killed daemon leaves
	ctx, stop := context.WithCancel(t.Context())
	args := []string{"serve", "--drain=10ms", "--mode=0640", "--group", strconv.Itoa(os.Getgid()),
		"--adapter", "link=network,address=10.0.0.1"}
	done := make(chan int, 1)
	go func() { done <- run(ctx, args, io.Discard, io.Discard) }()
	require.NoError(t, dial(t).Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	var errs bytes.Buffer
	assert.Equal(t, 1, run(ctx, args, io.Discard, &errs))
	assert.Contains(t, errs.String(), "a daemon is running at "+path)
	require.NoError(t, dial(t).Close(), "the first daemon still serves")
	stop()
	require.Zero(t, <-done)
}
