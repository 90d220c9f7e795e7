package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// watched runs ddkd status --watch and returns its output, until stop is called.
func watched(t *testing.T, args ...string) (lines *bufio.Scanner, stop func()) {
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, append([]string{"status", "--watch", "--every=1ms"}, args...), w, io.Discard)
		w.Close()
	}()
	return bufio.NewScanner(r), func() {
		cancel()
		go func() { _, _ = io.Copy(io.Discard, r) }() // until the command has ended
		assert.Zero(t, <-done)
	}
}

// TestWatch watches the status while a daemon starts, a client comes and goes, and the daemon ends. With --json, every
// line is a document.
func TestWatch(t *testing.T) {
	path := socket(t)
	lines, stop := watched(t, "--json")
	type document struct {
		Error    string
		Adapters []any
		Clients  []struct{ Name string }
	}
	await := func(what string, ok func(*document) bool) {
		for lines.Scan() {
			var d document
			require.NoError(t, json.Unmarshal(lines.Bytes(), &d), lines.Text())
			if ok(&d) {
				return
			}
		}
		t.Fatal("no document with", what)
	}
	await("an error", func(d *document) bool { return strings.Contains(d.Error, path) })
	ctx, end := context.WithCancel(t.Context())
	served := make(chan int, 1)
	go func() {
		served <- run(ctx, []string{"serve", "--adapter", "link=network,address=10.0.0.1"}, io.Discard, io.Discard)
	}()
	await("the adapter", func(d *document) bool { return len(d.Adapters) == 1 })
	has := func(d *document) bool {
		for _, c := range d.Clients {
			if c.Name == t.Name() {
				return true
			}
		}
		return false
	}
	c := dial(t)
	await("the client", has)
	require.NoError(t, c.Close())
	await("no client", func(d *document) bool { return d.Error == "" && !has(d) })

	text, stopText := watched(t)
	text.Scan()
	assert.True(t, strings.HasPrefix(text.Text(), "\x1b[H\x1b[2Jdaemon "), "%q", text.Text())
	stopText()
	end()
	require.Zero(t, <-served)
	await("an error", func(d *document) bool { return d.Error != "" })
	stop()
}
