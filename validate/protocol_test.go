package validate

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate/req"
)

func TestEventStream(t *testing.T) {
	var b bytes.Buffer
	w := &eventWriter{w: &b}
	events := []Event{
		{Kind: EventHello, Version: ProtocolVersion},
		{Kind: EventIdentity, Identity: &Identity{GUID: "1", Claims: []string{"UC"}}},
		{Kind: EventStart, Case: "a.b"},
		{Kind: EventLog, Text: "two\nlines and a \x1e mark"},
		{Kind: EventResult, Result: &Result{Case: "a.b", Level: req.Must, Status: Fail, Failures: []Failure{{Rule: "R", Got: "x"}}}, Elapsed: 5},
		{Kind: EventHang, Case: "a.b", Text: strings.Repeat("goroutine\n", 1000)},
		{Kind: EventFatal, Text: "no"},
	}
	for i, e := range events {
		if i == 3 {
			b.WriteString("printed by a driver\nand without an end")
		}
		require.NoError(t, w.write(e))
	}
	var stray []string
	r := NewEventReader(&b)
	r.Stray = func(s string) { stray = append(stray, s) }
	for _, want := range events {
		got, err := r.Next()
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := r.Next()
	assert.ErrorIs(t, err, io.EOF)
	assert.Equal(t, []string{"printed by a driver", "and without an end"}, stray)
}

func TestBadEvents(t *testing.T) {
	for _, line := range []string{`{`, `[]`, `{"kind":"nosuch"}`, `{"kind":"hello","version":2}`, `{"kind":"identity"}`, `{"kind":"start"}`, `{"kind":"hang"}`,
		`{"kind":"result"}`, `{"kind":"result","result":{"case":"a.b","status":"great","level":"MUST"}}`, `{"kind":"result","result":{"case":"a.b","status":"waived","level":"MUST"}}`,
		`{"kind":"result","result":{"status":"pass","level":"MUST"}}`} {
		_, err := NewEventReader(strings.NewReader("\x1e" + line + "\n")).Next()
		if assert.Error(t, err, line) {
			assert.NotErrorIs(t, err, io.EOF)
		}
	}
	_, err := NewEventReader(strings.NewReader("\x1e" + strings.Repeat("x", maxLine+1))).Next()
	assert.Error(t, err, "a line without end")
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("\x1e{\"kind\":\"hello\",\"version\":1}\nnoise\n\x1e{\"kind\":\"start\",\"case\":\"a.b\"}\n"))
	f.Add([]byte("\x1e{\"kind\":\"result\",\"result\":{\"case\":\"a.b\",\"status\":\"pass\",\"level\":\"MUST\"}}\n"))
	f.Add([]byte("\x1e\x1e\n\x1e"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewEventReader(bytes.NewReader(b))
		r.Stray = func(string) {}
		for range bytes.Count(b, []byte{'\n'}) + 2 {
			e, err := r.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !strings.HasPrefix(err.Error(), "worker stream: ") {
					t.Fatalf("%v", err)
				}
				return
			}
			if err := e.check(); err != nil {
				t.Fatalf("let through: %v", err)
			}
		}
		t.Fatal("more events than lines")
	})
}

func TestLinesSince(t *testing.T) {
	b := &tailBuffer{max: 40}
	write := func(s string) { _, err := b.Write([]byte(s)); require.NoError(t, err) }
	write("before\n")
	n := b.written()
	assert.Empty(t, b.linesSince(n))
	write("one\ntwo\n")
	assert.Equal(t, []string{"printed: one", "printed: two"}, b.linesSince(n))
	write(strings.Repeat("x", 100) + "\n")
	n = b.written()
	write("late\n")
	assert.Equal(t, []string{"printed: late"}, b.linesSince(n), "bytes in between are gone, positions hold")
	assert.NotPanics(t, func() { b.linesSince(1 << 20) })
}

func TestTailBuffer(t *testing.T) {
	b := &tailBuffer{max: 40}
	for range 100 {
		_, err := b.Write([]byte("0123456789"))
		require.NoError(t, err)
	}
	_, err := b.Write([]byte("end"))
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(b.String(), "0123456789\n[963 bytes left out]\n"), b.String())
	assert.True(t, strings.HasSuffix(b.String(), "end"))
	assert.Equal(t, "…nd", b.last(2))
}
