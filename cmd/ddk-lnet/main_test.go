package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/internal/command"
	"ciddk/internal/testenv"
	"ciddk/lnd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Addresses that no other test uses: there is one program per address and UDP port 4791.
const (
	serverIP = "127.19.81.1"
	callerIP = "127.19.81.2"
)

// TestProgram runs a server, and commands that reach it.
func TestProgram(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, callerIP)
	ctx, cancel := context.WithCancel(t.Context())
	ready, out := io.Pipe()
	var served bytes.Buffer
	done := make(chan int)
	go func() {
		args := []string{"serve", "--addr", serverIP, "--network", "3", "--stats", "--memory", "20"}
		status := run(ctx, args, out, &served)
		_ = out.Close()
		done <- status
	}()
	line := make([]byte, 100)
	n, err := ready.Read(line)
	require.NoError(t, err)
	require.Equal(t, "serving as "+serverIP+"@o2ib3\n", string(line[:n]))
	stats := make(chan string)
	go func() { b, _ := io.ReadAll(ready); stats <- string(b) }()

	for _, tt := range []struct {
		args string
		exit int
		want string
	}{
		{"ping 127.19.81.1@o2ib3", 0, "12345-0@lo\n12345-127.19.81.1@o2ib3\n"},
		{"ping --discover 127.19.81.1@o2ib3", 0, "12345-0@lo\n12345-127.19.81.1@o2ib3\n"},
		{"selftest 127.19.81.1@o2ib3 --rounds 2 --stats --tunable peer_credits=4 --tunable cksum=1", 0,
			"sent: PUT_REQ"},
		{"selftest 127.19.81.1@o2ib3 --portal 41", command.ExitError, "no memory"},
		{"ping 127.19.81.1@o2ib --timeout 5s", command.ExitError, "fatal"},
		{"ping 127.19.81.1@tcp", command.ExitUsage, "no NID"},
		{"ping 127.19.81.1 --tunable x=1", command.ExitError, "peer_credits_hiw"},
		{"serve", command.ExitError, "--addr"},
	} {
		args := strings.Fields(tt.args)
		if args[0] != "serve" {
			args = append(args, "--addr", callerIP)
		}
		var out bytes.Buffer
		require.Equal(t, tt.exit, run(t.Context(), args, &out, &out), "%s: %s", tt.args, &out)
		require.Contains(t, out.String(), tt.want, tt.args)
	}
	cancel()
	require.Contains(t, <-stats, "connections accepted")
	require.Zero(t, <-done)
}

// TestStore checks the bound of the memory that peers use.
func TestStore(t *testing.T) {
	s := &store{room: 100, data: map[uint64][]byte{}}
	put := func(match uint64, n int, err error) bool {
		b, done := s.put(lnd.Request{Target: lnd.Target{Match: match}, Len: n})
		done(len(b), err)
		return len(b) == n
	}
	require.True(t, put(1, 60, nil))
	require.False(t, put(2, 60, nil))
	require.False(t, put(1, 60, nil), "the block before is there until it is replaced")
	require.True(t, put(1, 40, nil))
	require.True(t, put(2, 60, errors.New("lost")))
	require.True(t, put(2, 60, nil))
	require.Zero(t, s.room)
	assert.Len(t, s.get(lnd.Request{Target: lnd.Target{Match: 2}}), 60)
}
