package exchange

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"ciddk/ci"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var sample = Dest{
	LID: 0x12, OutReads: 0x80, QPN: 0x345678, PSN: 0x9abcde, RKey: 0x1f2e3d4c, VAddr: 0x7f0011223344, SRQN: 0x55,
	GID: ci.GID(netip.MustParseAddr("::ffff:10.77.0.2").As16()),
}

// The encoded bytes of both forms are those of perftest.
func TestGolden(t *testing.T) {
	text := "0012:0080:345678:9abcde:1f2e3d4c:00007f0011223344:" +
		"00:00:00:00:00:00:00:00:00:00:ff:ff:0a:4d:00:02:00000055:\x00"
	assert.Equal(t, text, string(sample.text()))
	assert.Len(t, text, 108)
	assert.Equal(t, []byte{
		0, 0, 0, 0x12, 0, 0, 0, 0x80, 0, 0x34, 0x56, 0x78, 0, 0x9a, 0xbc, 0xde, 0x1f, 0x2e, 0x3d, 0x4c, 0, 0, 0, 0,
		0, 0, 0x7f, 0, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 2, 0, 0, 0,
		0x55, 0, 0, 0, 0,
	}, sample.binary())
	assert.Equal(t, "6.06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", string(encodeVersion()))
	assert.Equal(t, "5\x00", string(encodeMTU(ci.MTU4096)))
}

func drawDest(t *rapid.T) Dest {
	d := Dest{
		LID: ci.LID(rapid.Uint16().Draw(t, "LID")), OutReads: rapid.Uint16().Draw(t,
			"reads"), QPN: ci.QPN(rapid.Uint32Max(0xffffff).Draw(t, "QPN")),
		PSN: ci.PSN(rapid.Uint32Max(0xffffff).Draw(t, "PSN")), RKey: ci.Key(rapid.Uint32().Draw(t, "RKey")),
		VAddr: rapid.Uint64().Draw(t, "address"),
		SRQN:  rapid.Uint32().Draw(t, "SRQN"),
	}
	copy(d.GID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "GID"))
	return d
}

// Both forms can encode every destination.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDest(t)
		got, err := parseText(d.text())
		require.NoError(t, err)
		assert.Equal(t, d, got)
		got, err = parseBinary(d.binary())
		require.NoError(t, err)
		assert.Equal(t, d, got)
	})
}

func TestParseErrors(t *testing.T) {
	text := sample.text()
	broken := func(off int, b byte) []byte {
		c := bytes.Clone(text)
		c[off] = b
		return c
	}
	for want, b := range map[string][]byte{
		"not a destination of 108 bytes": text[:107],
		"is it perftest, with a GID?":    broken(107, 'x'),
		`sent the LID "0g12:"`:           broken(1, 'g'),
		`sent the QPN "+45678:"`:         broken(10, '+'),
		`sent the PSN "9abcde;"`:         broken(23, ';'),
		`sent the address`:               broken(40, ' '),
		`sent the SRQ number`:            broken(106, '0'),
	} {
		_, err := parseText(b)
		assert.ErrorContains(t, err, want)
	}
	structure := sample.binary()
	for off, want := range map[int]string{0: "sent the LID 0xff000012, want at most 0xffff", 4: "number of reads",
		8: "QPN", 12: "PSN"} {
		c := bytes.Clone(structure)
		c[off] = 0xff
		_, err := parseBinary(c)
		assert.ErrorContains(t, err, want)
	}
	_, err := parseBinary(structure[:55])
	assert.ErrorContains(t, err, "a destination of 55 bytes, want 56")
}

func TestParseHello(t *testing.T) {
	version := func(s string) []byte { return append([]byte(s), make([]byte, versionLen-len(s))...) }
	for _, v := range []string{"5.70", "6.06", "6.29", "23.10"} {
		got, err := parseVersion(version(v), false)
		require.NoError(t, err)
		assert.Equal(t, v, got)
	}
	for v, want := range map[string]string{
		"5.69": "version 5.69 of perftest, want at least 5.70", "": "not a version", "nan": "not a version",
		"0x1p9": "not a version",
		"1e9":   "not a version", "6.0.6": "not a version", "inf": "not a version",
	} {
		_, err := parseVersion(version(v), false)
		assert.ErrorContains(t, err, want, v)
	}
	_, err := parseVersion(version("6.28"), true)
	require.NoError(t, err)
	_, err = parseVersion(version("6.29"), true)
	assert.ErrorContains(t, err, "use TCP, without -R and -z")
	_, err = parseVersion(bytes.Repeat([]byte("6"), versionLen), false)
	assert.ErrorContains(t, err, "not a version", "no NUL")

	n, err := parseSize("cache line", []byte{0, 0, 0, 64}, maxCacheLine)
	require.NoError(t, err)
	assert.Equal(t, 64, n)
	for _, b := range [][]byte{{0, 0, 0, 0}, {0, 0, 16, 1}, {0xff, 0xff, 0xff, 0xff}} {
		_, err := parseSize("cache line", b, maxCacheLine)
		assert.ErrorContains(t, err, "want 1 to 4096")
	}
	m, err := parseMTU([]byte("3\x00"))
	require.NoError(t, err)
	assert.Equal(t, ci.MTU1024, m)
	for _, s := range []string{"0\x00", "6\x00", "3", "3 ", "33\x00"} {
		_, err := parseMTU([]byte(s))
		assert.ErrorContains(t, err, "not the code of a path MTU", s)
	}
}

// A side that measured nothing sends an arbitrary report.
func TestParseReport(t *testing.T) {
	r := Report{Size: 1, Iters: 1 << 40, Peak: 1.5, Average: 0.25, Rate: 7}
	assert.Equal(t, r, parseReport(r.encode()))
	r.Peak, r.Average, r.Rate = math.NaN(), math.Inf(1), math.Inf(-1)
	assert.Equal(t, Report{Size: 1, Iters: 1 << 40}, parseReport(r.encode()))
}

// dialPair returns the two ends of a link.
func dialPair(t *testing.T) (client, server Link) {
	ln, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	accepted := make(chan error, 1)
	go func() {
		var err error
		server, _, err = ln.Accept(t.Context())
		accepted <- err
	}()
	client, to, err := Dial(t.Context(), ln.Addr().String())
	require.NoError(t, err)
	assert.Equal(t, ln.Addr().String(), to.String())
	require.NoError(t, <-accepted)
	require.NoError(t, ln.Close())
	t.Cleanup(func() { assert.NoError(t, errors.Join(client.Close(), server.Close())) })
	return client, server
}

// Both sides get the same values, in either form.
func TestTalk(t *testing.T) {
	for name, structures := range map[string]bool{"text": false, "structures": true} {
		t.Run(name, func(t *testing.T) {
			a, b := dialPair(t)
			type outcome struct {
				hello  Hello
				dest   Dest
				report Report
				err    error
			}
			side := func(talk Talk, mine Hello, d Dest, r Report) (o outcome) {
				if o.hello, o.err = talk.Greet(t.Context(), mine); o.err != nil {
					return o
				}
				if o.dest, o.err = talk.Dest(t.Context(), d); o.err != nil {
					return o
				}
				if o.report, o.err = talk.Report(t.Context(), r); o.err != nil {
					return o
				}
				if o.err = talk.Barrier(t.Context(), d, o.dest); o.err == nil {
					o.err = talk.Bye(t.Context())
				}
				return o
			}
			other := sample
			other.QPN = 1
			done := make(chan outcome)
			go func() {
				done <- side(Talk{Link: b, Binary: structures}, Hello{CycleBuffer: 4096, CacheLine: 128,
					MTU: ci.MTU2048}, sample, Report{Size: 1})
			}()
			c := side(Talk{Link: a, Client: true, Binary: structures}, Hello{CycleBuffer: 65536, CacheLine: 64,
				MTU: ci.MTU4096}, other, Report{Size: 2})
			s := <-done
			require.NoError(t, c.err)
			require.NoError(t, s.err)
			common := Hello{Version: Version, CycleBuffer: 65536, CacheLine: 128, MTU: ci.MTU2048}
			assert.Equal(t, outcome{hello: common, dest: sample, report: Report{Size: 1}}, c)
			assert.Equal(t, outcome{hello: common, dest: other, report: Report{Size: 2}}, s)
			if structures {
				assert.False(t, b.Pending(), "only TCP has a last message")
				return
			}
			last := make([]byte, 5)
			require.NoError(t, b.Recv(t.Context(), last))
			assert.Equal(t, "done\x00", string(last))
		})
	}
}

// A peer at another step repeats the destination of another queue pair.
func TestBarrier(t *testing.T) {
	a, b := dialPair(t)
	other := sample
	other.PSN++
	done := make(chan error)
	go func() {
		talk := Talk{Link: b}
		done <- talk.Barrier(t.Context(), other, sample)
	}()
	talk := Talk{Link: a, Client: true}
	assert.ErrorContains(t, talk.Barrier(t.Context(), sample, sample), "with the same -q, -a and -b?")
	assert.NoError(t, <-done)
}

func TestCheckGIDs(t *testing.T) {
	six := Dest{GID: ci.GID(netip.MustParseAddr("fd77::1").As16())}
	assert.NoError(t, CheckGIDs(six, six))
	assert.NoError(t, CheckGIDs(sample, sample))
	err := CheckGIDs(six, sample)
	assert.ErrorContains(t, err, "10.77.0.2")
	assert.ErrorContains(t, err, "fd77::1")
}

func TestLeave(t *testing.T) {
	a, b := dialPair(t)
	require.NoError(t, b.Send(t.Context(), []byte("abc")))
	require.NoError(t, b.Close())
	<-a.Done()
	assert.True(t, a.Pending())
	p := make([]byte, 2)
	require.NoError(t, a.Recv(t.Context(), p), "messages from before the end can be received")
	assert.Equal(t, "ab", string(p))
	assert.ErrorIs(t, a.Recv(t.Context(), p), ErrLeft, "half a message")
}

// With a silent peer, or one that sends a part of a message, Recv waits until the context ends.
func TestSilence(t *testing.T) {
	a, b := dialPair(t)
	require.NoError(t, b.Send(t.Context(), []byte("abc")))
	cause := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, cause)
	defer cancel()
	err := a.Recv(ctx, make([]byte, 4))
	assert.ErrorIs(t, err, cause)
	assert.ErrorContains(t, err, "3 of 4 bytes")
}

// The data of a peer that sends without limit are read only up to a limit.
func TestFlood(t *testing.T) {
	a, b := dialPair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	sent := make(chan int)
	go func() {
		n := 0
		for b.Send(ctx, make([]byte, 64<<10)) == nil {
			n += 64 << 10
		}
		sent <- n
	}()
	p := make([]byte, 10*chunkLen)
	require.NoError(t, a.Recv(ctx, p))
	require.NoError(t, a.Close())
	<-sent // Send returns an error
	assert.LessOrEqual(t, len(a.(*tcpLink).left), chunkLen)
}

func TestAcceptInterrupted(t *testing.T) {
	ln, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = ln.Accept(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	_, _, err = Dial(t.Context(), ln.Addr().String())
	assert.ErrorContains(t, err, "no server")
	var op *net.OpError
	assert.ErrorAs(t, err, &op)
}

// A bytesLink is the link to a peer that has sent some bytes and accepts any.
type bytesLink struct{ r *bytes.Reader }

func (l bytesLink) Send(context.Context, []byte) error { return nil }
func (l bytesLink) Recv(_ context.Context, b []byte) error {
	if _, err := io.ReadFull(l.r, b); err != nil {
		return ErrLeft
	}
	return nil
}
func (l bytesLink) Pending() bool         { return l.r.Len() > 0 }
func (l bytesLink) Done() <-chan struct{} { return nil }
func (l bytesLink) Close() error          { return nil }

// FuzzTalk passes arbitrary bytes of a peer to a side.
func FuzzTalk(f *testing.F) {
	var good []byte
	good = append(good, encodeVersion()...)
	good = append(good, 0, 0, 16, 0, 0, 0, 0, 64, '5', 0)
	f.Add(true, append(bytes.Clone(good), sample.text()...))
	f.Add(false, append(bytes.Clone(good), sample.binary()...))
	f.Add(true, append(bytes.Clone(good), bytes.Repeat([]byte{':'}, textLen)...))
	f.Fuzz(func(t *testing.T, text bool, b []byte) {
		talk := Talk{Link: bytesLink{bytes.NewReader(b)}, Binary: !text}
		mine := Hello{CycleBuffer: 4096, CacheLine: 64, MTU: ci.MTU1024}
		h, err := talk.Greet(t.Context(), mine)
		if err != nil {
			return
		}
		if h.CycleBuffer < mine.CycleBuffer || h.CycleBuffer > maxCycleBuffer || h.CacheLine < mine.CacheLine ||
			h.CacheLine > maxCacheLine ||
			h.MTU < ci.MTU256 || h.MTU > mine.MTU {
			t.Fatalf("out of bounds: %+v", h)
		}
		d, err := talk.Dest(t.Context(), sample)
		if err != nil {
			return
		}
		if d.QPN > 0xffffff || d.PSN > 0xffffff {
			t.Fatalf("out of bounds: %+v", d)
		}
		again, err := parseText(d.text())
		if err != nil || again != d {
			t.Fatalf("%+v became %+v, %v", d, again, err)
		}
		r, err := talk.Report(t.Context(), Report{})
		for _, x := range []float64{r.Peak, r.Average, r.Rate} {
			if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
				t.Fatalf("not finite: %+v", r)
			}
		}
	})
}
