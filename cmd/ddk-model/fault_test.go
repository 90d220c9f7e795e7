package main

import (
	"context"
	"encoding/json"
	"io"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus/vfiouser"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/command"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/testenv"
)

// serveFaults serves a card that accepts faults until the test ends, and returns its socket.
func serveFaults(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "card")
	ctx, stop := context.WithCancel(t.Context())
	var out testenv.Output
	done := make(chan int, 1)
	go func() { done <- run(ctx, []string{"serve", "--faults", path}, &out, io.Discard) }()
	t.Cleanup(func() {
		stop()
		assert.Zero(t, <-done)
		_, err := os.Stat(path + controlSuffix)
		assert.ErrorIs(t, err, os.ErrNotExist)
	})
	select {
	case <-out.Seen(path + `"}}'`):
	case <-time.After(time.Minute):
		require.Fail(t, "the card is not served", out.String())
	}
	return path
}

// TestFaults injects faults into a card that a driver uses.
func TestFaults(t *testing.T) {
	card := serveFaults(t)
	inject := func(args ...string) {
		t.Helper()
		status, _, errs := runProgram(t, append([]string{"fault"}, args...)...)
		require.Zero(t, status, errs)
	}
	f, err := vfiouser.Dial(t.Context(), card)
	require.NoError(t, err)
	defer func() { assert.NoError(t, f.Close()) }()
	d, err := fw.Open(t.Context(), f, fw.Config{ResetDelay: time.Nanosecond})
	require.NoError(t, err)
	changes := make(chan uint8, 8)
	d.OnEvent(func(e fw.Event) { changes <- e.Subtype }, prm.EventPortChange)
	require.NoError(t, d.InitPort(t.Context(), 1))
	require.EqualValues(t, prm.PortChangeActive, <-changes)

	inject("link", card, "down")
	require.EqualValues(t, prm.PortChangeDown, <-changes)
	inject("link", card, "up", "--port", "1")
	require.EqualValues(t, prm.PortChangeActive, <-changes)

	nop := func() error { return d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}) }
	inject("fail", card, "NOP", "BAD_INDEX", "--count", "2")
	for range 2 {
		var e *fw.CommandError
		require.ErrorAs(t, nop(), &e)
		require.Equal(t, prm.BadIndex, e.Status)
	}
	require.NoError(t, nop())

	inject("catastrophic", card)
	<-d.Failed()
	require.NoError(t, d.Close())

	regs, err := f.BAR(prm.BARControl)
	require.NoError(t, err)
	const dword, goBit = prm.RegHCR + 24, 1 << 23
	execute := func() bool {
		regs.Write32(dword, bits.ReverseBytes32(goBit|uint32(prm.CmdNOP)))
		return bits.ReverseBytes32(regs.Read32(dword))&goBit == 0
	}
	regs.Write32(prm.RegReset, bits.ReverseBytes32(prm.ResetValue))
	require.True(t, execute(), "a command completes, with an error")
	inject("hang", card, "NOP")
	require.False(t, execute())
	regs.Write32(prm.RegReset, bits.ReverseBytes32(prm.ResetValue))
	require.True(t, execute())
}

// TestFaultErrors requests faults that do not exist, and sends what is no request.
func TestFaultErrors(t *testing.T) {
	card := serveFaults(t)
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"link CARD sideways", command.ExitUsage, "sideways"},
		{"link CARD down --port 2", command.ExitError, "port is 2"},
		{"link /does/not/exist down", command.ExitError, "--faults"},
		{"fail CARD NOPE BAD_PARAM", command.ExitError, `"NOPE"`},
		{"fail CARD NOP WORSE", command.ExitError, `"WORSE"`},
		{"fail CARD NOP OK", command.ExitError, "no failure"},
		{"fail CARD NOP BAD_PARAM --count 0", command.ExitError, "count 0"},
		{"hang CARD NOPE", command.ExitError, `"NOPE"`},
		{"lose-interrupts CARD --vector 64", command.ExitError, "0 to 63"},
		{"overflow-eq CARD", command.ExitUsage, "--eq"},
		{"overflow-eq CARD --eq 9", 0, ""},
		{"lose-interrupts CARD", 0, ""},
	} {
		args := strings.Fields(strings.ReplaceAll(tt.args, "CARD", card))
		status, _, errs := runProgram(t, append([]string{"fault"}, args...)...)
		assert.Equal(t, tt.status, status, "%s: %s", tt.args, errs)
		assert.Contains(t, errs, tt.want, tt.args)
	}
	for _, text := range []string{"{", `{"kind":"fire","count":1}`, `{"port":-1}`, `[]`} {
		c, err := net.Dial("unix", card+controlSuffix)
		require.NoError(t, err)
		_, err = io.WriteString(c, text+"\n")
		require.NoError(t, err)
		require.NoError(t, c.(*net.UnixConn).CloseWrite())
		var r response
		require.NoError(t, json.NewDecoder(c).Decode(&r), text)
		assert.NotEmpty(t, r.Error, text)
		require.NoError(t, c.Close())
	}
	i, err := os.Stat(card + controlSuffix)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), i.Mode().Perm(), "only the owner can connect")
}

func TestQuirks(t *testing.T) {
	c := serveCmd{Quirks: []string{"empty-reads", "windows-2b"}}
	assert.Equal(t, model.Quirks{FailEmptyReads: true, ClaimWindows2B: true}, c.quirks())
	assert.Equal(t, model.Quirks{FailEmptyReads: true}, (&serveCmd{Quirks: []string{"empty-reads"}}).quirks())
	status, _, errs := runProgram(t, "serve", "--quirk", "slow", "/x")
	assert.Equal(t, command.ExitUsage, status)
	assert.Contains(t, errs, "windows-2b")
}
