package main

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCommand serves a disk in memory, and one in a file over a bad link, until the context ends. Linux is the host of
// the program in test/nvmet.
func TestCommand(t *testing.T) {
	const addr = "127.19.81.1"
	testenv.Addresses(t, testenv.RoCEv2Port, addr)
	file := filepath.Join(t.TempDir(), "disk")
	for _, args := range [][]string{{"--size", "1MiB"}, {"--file", file, "--drop", "0.01"}} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &testenv.Output{}
		done := make(chan error, 1)
		go func() { done <- command(ctx, append(args, "--addr", addr), out) }()
		select {
		case <-out.Seen("serving nqn.2024-01.example:disk of "):
		case err := <-done:
			require.NoError(t, err)
		}
		cancel()
		require.NoError(t, <-done)
	}
	for name, args := range map[string][]string{"unit": {"--size", "1TB"}, "size": {"--size", "0"},
		"memory": {"--size", "2000GiB"}, "file": {"--file", t.TempDir()}, "share": {"--drop", "2", "--addr", addr}} {
		assert.Error(t, command(t.Context(), args, &testenv.Output{}), name)
	}
}
