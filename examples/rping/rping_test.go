package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Addresses that no other test uses: there is one program per address and UDP port 4791.
const (
	serverIP = "127.20.17.1"
	clientIP = "127.20.17.2"
	otherIP  = "127.20.17.3"
)

// A program is a run of the command on a goroutine.
type program struct {
	out  testenv.Output
	done chan error
	stop context.CancelFunc
}

// start runs the command, and returns when its output contains text.
func start(t *testing.T, text string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	p := &program{done: make(chan error, 1), stop: cancel}
	seen := p.out.Seen(text)
	go func() { p.done <- command(ctx, args, &p.out) }()
	if text == "" {
		return p
	}
	select {
	case <-seen:
	case err := <-p.done:
		require.Fail(t, "ended without "+text, "%v", err)
	}
	return p
}

func (p *program) end(t *testing.T) (string, error) {
	t.Helper()
	err := <-p.done
	return p.out.String(), err
}

// TestPing runs client and server on two HCAs at loopback addresses.
func TestPing(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP, otherIP)
	tests := map[string]struct {
		server, client []string
		pings          int
	}{
		"usual":           {[]string{"-v"}, []string{"-C", "3", "-v", "-V"}, 3},
		"smallest":        {nil, []string{"-C", "2", "-S", "26", "-V"}, 2},
		"largest":         {nil, []string{"-C", "2", "-S", "65535", "-V"}, 2},
		"debug":           {[]string{"-d"}, []string{"-C", "1", "-d"}, 1},
		"server's number": {[]string{"-C", "2"}, []string{"-C", "2"}, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t, "listening on "+serverIP+":7174", append([]string{"-s", "-a", serverIP}, tt.server...)...)
			c := start(t, "", append([]string{"-c", "-a", serverIP, "-I", clientIP}, tt.client...)...)
			out, err := c.end(t)
			require.NoError(t, err)
			sout, err := s.end(t)
			require.NoError(t, err)
			if name == "usual" {
				assert.Equal(t, tt.pings, strings.Count(out, "ping data: rdma-ping-"))
				assert.Contains(t, out, "ping data: rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr\n")
				assert.Contains(t, out, "ping data: rdma-ping-1: BCDEF")
				assert.Contains(t, sout, "server ping data: rdma-ping-2: CDEF")
			}
			if name == "debug" {
				assert.Contains(t, sout, "RDMA READ completed\n")
				assert.Contains(t, sout, "RDMA WRITE completed\n")
			}
		})
	}
}

// TestPersistent checks that a server with -P continues when a client is interrupted, and ends when it is interrupted.
func TestPersistent(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP, otherIP)
	s := start(t, "listening on", "-s", "-P", "-a", serverIP)
	a := start(t, "rdma-ping-5:", "-c", "-v", "-a", serverIP, "-I", clientIP)
	b := start(t, "", "-c", "-V", "-C", "5", "-a", serverIP, "-I", otherIP)
	_, err := b.end(t)
	require.NoError(t, err)
	a.stop()
	_, err = a.end(t)
	require.ErrorIs(t, err, context.Canceled)
	c := start(t, "", "-c", "-V", "-C", "2", "-a", serverIP, "-I", clientIP)
	_, err = c.end(t)
	require.NoError(t, err)
	s.stop()
	_, err = s.end(t)
	require.NoError(t, err)
}

// TestServerLeaves checks that a client reports at once that its server has ended.
func TestServerLeaves(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP, otherIP)
	s := start(t, "listening on", "-s", "-a", serverIP)
	c := start(t, "rdma-ping-1:", "-c", "-v", "-a", serverIP, "-I", clientIP)
	s.stop()
	_, err := s.end(t)
	require.Error(t, err)
	_, err = c.end(t)
	require.ErrorIs(t, err, errLeft)

	c = start(t, "", "-c", "-a", serverIP, "-I", clientIP, "--timeout", "200ms")
	_, err = c.end(t)
	want := error(context.DeadlineExceeded) // no HCA at all
	if runtime.GOOS == "linux" {
		want = syscall.ECONNREFUSED // Linux reports that no socket has the port
	}
	require.ErrorIs(t, err, want)
	require.ErrorContains(t, err, "is there a server at "+serverIP)
}

// TestInvalidPeers connects clients that send invalid messages.
func TestInvalidPeers(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP, otherIP)
	tests := map[string]struct {
		send int // bytes
		a    advert
		want string
	}{
		"a short message": {8, advert{}, "sent 8 bytes instead of 16"},
		"too long":        {advertLen, advert{Len: bufferLen + 1}, "65537 bytes, want at most 65536"},
		"no such buffer":  {advertLen, advert{Addr: 1, RKey: 1, Len: 64}, "RDMA READ: completion: remote access error"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t, "listening on", "-s", "-a", serverIP)
			o := options{Client: true, Addr: netip.MustParseAddr(serverIP), From: netip.MustParseAddr(clientIP),
				Timeout: 10 * time.Second}
			m, err := open(t.Context(), o)
			require.NoError(t, err)
			var side *side
			id, err := m.IDs().Dial(t.Context(), netip.AddrPortFrom(o.Addr, 7174),
				cmid.DialConfig{QP: qpConfig(), Conn: terms(),
					Setup: func(id *cmid.ID) (err error) {
						side,
							err = newSide(id, o, &printer{w: io.Discard})
						return err
					}})
			require.NoError(t, err)
			tt.a.put(side.buf[sendOff:])
			err = side.do(t.Context(), "SEND",
				ci.SendWR{Op: ci.OpSend, SGL: []ci.SGE{side.region.SGE(sendOff, uint32(tt.send))}})
			if !errors.Is(err, errLeft) { // the server may disconnect before its acknowledgement is seen
				require.NoError(t, err)
			}
			_, err = s.end(t)
			require.ErrorContains(t, err, tt.want)
			<-id.Done()
			require.NoError(t, side.close())
			require.NoError(t, m.Close())
		})
	}
}

func TestOptions(t *testing.T) {
	tests := map[string][]string{
		"missing flags":               {"-a", serverIP},
		"can't be used together":      {"-s", "-c", "-a", serverIP},
		"26 to 65535 bytes":           {"-s", "-a", serverIP, "-S", "25"},
		"-S 65536":                    {"-s", "-a", serverIP, "-S", "65536"},
		"want 0 or more":              {"-c", "-a", serverIP, "--count=-1"},
		"want a positive duration":    {"-c", "-a", serverIP, "--timeout=0s"},
		"give the port of the server": {"-c", "-a", serverIP, "-p", "0"},
		"give a unicast address":      {"-c", "-a", "224.0.0.5"},
		"give the address of one HCA": {"-s", "-a", "0.0.0.0"},
		"-I is an option of clients":  {"-s", "-a", serverIP, "-I", clientIP},
		"different IP versions":       {"-c", "-a", serverIP, "-I", "::1"},
	}
	for want, args := range tests {
		assert.ErrorContains(t, command(t.Context(), args, io.Discard), want, args)
	}
}

// TestSource checks the source address of a client without -I.
func TestSource(t *testing.T) {
	a, err := source(t.Context(), netip.MustParseAddr("127.0.0.2"))
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1", a.String())
	_, err = source(t.Context(), netip.MustParseAddr("127.0.0.1"))
	require.ErrorContains(t, err, "set another one for the client with -I")
	_, err = source(t.Context(), netip.Addr{})
	require.ErrorContains(t, err, "-I sets the source address")
}

// FuzzParseAdvert parses arbitrary bytes.
func FuzzParseAdvert(f *testing.F) {
	f.Add(make([]byte, advertLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAdvert(b)
		if err != nil {
			return
		}
		if a.Len > bufferLen {
			t.Fatalf("%d bytes do not fit", a.Len)
		}
		again := make([]byte, advertLen)
		a.put(again)
		if !bytes.Equal(b, again) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}
