package validate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate/req"
)

func TestEventStream(t *testing.T) {
	var b bytes.Buffer
	w := &eventWriter{w: &b, nonce: "nonce"}
	events := []Event{
		{Kind: EventHello, Version: ProtocolVersion},
		{Kind: EventIdentity, Identity: &Identity{GUID: "1", Claims: []string{"UC"}}},
		{Kind: EventStart, Case: "a.b"},
		{Kind: EventLog, Text: "two\nlines and a \x1e mark"},
		{Kind: EventResult, Elapsed: 5, Result: &Result{
			Case: "a.b", Level: req.Must, Status: Fail, Failures: []Failure{{Rule: "R", Got: "x"}},
		}},
		{Kind: EventHang, Case: "a.b", Text: strings.Repeat("goroutine\n", 1000)},
		{Kind: EventFatal, Text: "no"},
	}
	for _, e := range events {
		require.NoError(t, w.write(e))
	}
	r := newEventReader(&b, "nonce")
	for _, want := range events {
		got, err := r.next()
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := r.next()
	assert.ErrorIs(t, err, io.EOF)
}

func TestBadEvents(t *testing.T) {
	result := `{"kind":"result","result":{"case":"a.b","status":"pass","level":"MUST"}}`
	for _, line := range []string{
		"nonce {", "nonce []", `nonce {"kind":"nosuch"}`, `nonce {"kind":"hello","version":1}`,
		`nonce {"kind":"identity"}`, `nonce {"kind":"start"}`, `nonce {"kind":"hang"}`, `nonce {"kind":"result"}`,
		`nonce {"kind":"result","result":{"case":"a.b","status":"great","level":"MUST"}}`,
		`nonce {"kind":"result","result":{"case":"a.b","status":"waived","level":"MUST"}}`,
		`nonce {"kind":"result","result":{"case":"a.b","status":"flaky","level":"MUST"}}`,
		`nonce {"kind":"result","result":{"status":"pass","level":"MUST"}}`,
		// Without the nonce, with another one, and after other output.
		result, " " + result, "\x1e" + result, "other " + result, "noncex " + result,
		"printed without a newline" + "nonce " + result, "",
	} {
		_, err := newEventReader(strings.NewReader(line+"\n"), "nonce").next()
		if assert.Error(t, err, line) {
			assert.NotErrorIs(t, err, io.EOF)
			assert.Less(t, len(err.Error()), 300)
		}
	}
	_, err := newEventReader(strings.NewReader("nonce "+result), "nonce").next()
	assert.NoError(t, err)
	_, err = newEventReader(strings.NewReader("nonce "+strings.Repeat("x", maxLine+1)), "nonce").next()
	assert.Error(t, err, "a line longer than maxLine")
}

// TestNonce checks that nonces differ and cannot be guessed.
func TestNonce(t *testing.T) {
	a, b := newNonce(), newNonce()
	assert.NotEqual(t, a, b)
	assert.GreaterOrEqual(t, len(a), 26)
	assert.NotContains(t, a, " ")
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("n {\"kind\":\"hello\",\"version\":2}\nnoise\nn {\"kind\":\"start\",\"case\":\"a.b\"}\n"))
	f.Add([]byte("n {\"kind\":\"result\",\"result\":{\"case\":\"a.b\",\"status\":\"pass\",\"level\":\"MUST\"}}\n"))
	f.Add([]byte("n n \nn"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newEventReader(bytes.NewReader(b), "n")
		for range bytes.Count(b, []byte{'\n'}) + 2 {
			e, err := r.next()
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

// TestCommandReader checks that the end of the commands while a case runs is taken for the end of the parent, and ends
// the worker.
func TestCommandReader(t *testing.T) {
	exits := make(chan int, 1)
	in, out := io.Pipe()
	r := newCommandReader(bufio.NewReader(in), func(n int) { exits <- n })
	go func() { _, _ = io.WriteString(out, `{"case":"a.b","rerun":1}`+"\n") }()
	c, err := r.next()
	require.NoError(t, err)
	assert.Equal(t, command{Case: "a.b", Rerun: 1}, c)
	require.NoError(t, out.Close())
	assert.Equal(t, exitOrphan, <-exits)
	_, err = r.next()
	assert.ErrorIs(t, err, io.EOF)

	r = newCommandReader(bufio.NewReader(strings.NewReader("{\n")), func(n int) { exits <- n })
	_, err = r.next()
	assert.ErrorContains(t, err, "command: ")
	r = newCommandReader(bufio.NewReader(strings.NewReader("")), func(n int) { exits <- n })
	_, err = r.next()
	assert.ErrorIs(t, err, io.EOF)
	assert.Empty(t, exits, "no case was running")
}

func TestLinesSince(t *testing.T) {
	b := newTailBuffer(40, "")
	write := func(s string) { _, err := b.Write([]byte(s)); require.NoError(t, err) }
	write("before\n")
	n := b.written()
	assert.Empty(t, b.linesSince(n))
	write("one\ntwo\n")
	assert.Equal(t, []string{"one", "two"}, b.linesSince(n))
	write(strings.Repeat("x", 100) + "\n")
	n = b.written()
	write("late\n")
	assert.Equal(t, []string{"late"}, b.linesSince(n), "positions are right although bytes were dropped")
	assert.NotPanics(t, func() { b.linesSince(1 << 20) })
}

func TestTailBuffer(t *testing.T) {
	b := newTailBuffer(40, "")
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

// TestPrintedMark checks that the mark is found if it is written in pieces, that it is not kept, and that the wait for
// it is limited.
func TestPrintedMark(t *testing.T) {
	const mark = "\x1enonce\n"
	for at := 1; at < len(mark); at++ {
		for _, max := range []int{24, 1 << 10} {
			b := newTailBuffer(max, mark)
			for _, s := range []string{"one\n", "two", mark[:at], mark[at:], "three"} {
				_, err := b.Write([]byte(s))
				require.NoError(t, err)
			}
			b.awaitMark(time.Minute)
			if max > 100 {
				assert.Equal(t, "one\ntwothree", b.String())
			}
		}
	}
	b := newTailBuffer(40, mark)
	b.awaitMark(time.Millisecond)
	assert.Empty(t, b.String())
}
