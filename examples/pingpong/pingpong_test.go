package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Addresses that no other test uses: there is one program per address and UDP port 4791.
const (
	serverIP = "127.18.51.1"
	clientIP = "127.18.51.2"
)

// freePort returns a TCP port of the server's address that is free at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", serverIP+":0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// pair runs a server and a client, and returns their output and errors.
func pair(t *testing.T, server, client []string) (out [2]string, errs [2]error) {
	t.Helper()
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	port := freePort(t)
	so := &testenv.Output{}
	listens := so.Seen("\n")
	done := make(chan error, 1)
	go func() { done <- command(ctx, append(server, "-p", port, "-d", serverIP), so) }()
	select {
	case <-listens: // the server listens
	case err := <-done:
		require.NoError(t, err, "the server did not start")
	}
	co := &bytes.Buffer{}
	errs[1] = command(ctx, append(client, "-p", port, "-d", clientIP, serverIP), co)
	if errs[1] != nil {
		cancel()
	}
	errs[0] = <-done
	return [2]string{so.String(), co.String()}, errs
}

func TestPair(t *testing.T) {
	for _, args := range [][]string{
		{"rc", "-c"},
		{"rc", "-c", "-e", "-n", "50", "-s", "100000", "-m", "4096"},
		{"rc", "-n", "1", "-r", "1", "-s", "1", "-m", "256"},
		{"uc", "-c", "-n", "50", "-s", "5000", "-m", "512"},
		{"ud", "-c", "-n", "50"},
		{"ud", "-n", "10", "-e", "-s", "3"},
		{"srq", "-n", "100"},
		{"srq", "-n", "100", "-q", "2", "-e", "-r", "4"},
	} {
		t.Run(strings.Join(args, ""), func(t *testing.T) {
			out, errs := pair(t, args, args)
			for i := range out {
				require.NoError(t, errs[i], out[i])
				assert.Contains(t, out[i], " iters in ")
				assert.Contains(t, out[i], " usec/iter\n")
				assert.Contains(t, out[i], "  local address:  LID 0x0000, QPN 0x")
				assert.Contains(t, out[i], "GID ::ffff:"+[]string{serverIP, clientIP}[i])
			}
		})
	}
}

// TestImpaired checks that a program on a bad link transfers the right data.
func TestImpaired(t *testing.T) {
	for _, args := range [][]string{
		{"rc", "-c", "-n", "200", "-s", "5000"},
		{"rc", "-c", "-n", "200", "-e"},
	} {
		t.Run(strings.Join(args, ""), func(t *testing.T) {
			out, errs := pair(t, append(args, "--impair", "2%", "--seed", "5"), args)
			for i := range out {
				require.NoError(t, errors.Join(errs[:]...), out[i])
				assert.Contains(t, out[i], "200 iters in ")
			}
			assert.Contains(t, out[0], "impair_dropped ")
			assert.Contains(t, out[0], "impair_corrupted ")
			assert.NotContains(t, out[1], "impair")
		})
	}
}

// TestDisagreement checks that peers with different options report the difference and end.
func TestDisagreement(t *testing.T) {
	tests := []struct {
		name           string
		server, client []string
		want           string // in the error of either side
	}{
		{"size", []string{"rc", "-s", "100"}, []string{"rc", "-s", "200"}, "remote"},
		{"smaller size", []string{"rc", "-s", "200"}, []string{"rc", "-s", "100"},
			"100 bytes, want 200: does the peer have the same -s?"},
		{"check", []string{"rc", "-c"}, []string{"rc"}, "does the client have -c?"},
		{"QPs", []string{"srq", "-q", "3"}, []string{"srq", "-q", "4"},
			"the peer has another number of QPs than this side, 3"},
		{"exchanges", []string{"uc", "-n", "10"}, []string{"uc", "-n", "9"}, "no completion for 4s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, errs := pair(t, append(tt.server, "--timeout", "4s"), append(tt.client, "--timeout", "4s"))
			require.True(t, errs[0] != nil || errs[1] != nil)
			require.Contains(t, fmt.Sprint(errs), tt.want)
		})
	}
}

func TestBadOptions(t *testing.T) {
	tests := []struct{ args, want string }{
		{"", `expected "<mode>`},
		{"rd", "must be one of"},
		{"rc --size=-1", "want 1 byte to 1 GiB"},
		{"rc -n 0", "at least one exchange"},
		{"rc -r 0", "at least one receive"},
		{"rc -m 1000", "256, 512, 1024, 2048 or 4096"},
		{"srq -q 0", "1 to 256"},
		{"srq -q 10 -r 9", "at most -r (9)"},
		{"rc --timeout 0s", "want a positive duration"},
		{"rc --impair much", `"much": want a share from 0 to 10%`},
		{"rc --impair 11%", "a share from 0 to 10%"},
		{"rc --impair NaN", "a share from 0 to 10%"},
		{"uc --impair 2%", "does not retransmit lost messages"},
		{"srq --impair 2%", "cannot find out when its peer has finished"},
		{"rc -d nowhere", "--addr"},
		{"rc -d 192.0.2.1", "192.0.2.1"}, // an address for documentation (RFC 5737)
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			err := command(t.Context(), strings.Fields(tt.args), io.Discard)
			require.ErrorContains(t, err, tt.want)
		})
	}
	t.Run("datagram above the MTU", func(t *testing.T) {
		testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
		err := command(t.Context(), []string{"ud", "-s", "4097", "-d", serverIP}, io.Discard)
		require.ErrorContains(t, err, "at most the port's MTU, 4096 bytes")
	})
}

// TestNoPeer checks that a client without a server fails, and that the context ends a server without a client.
func TestNoPeer(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
	port := freePort(t)
	require.ErrorContains(t, command(t.Context(), []string{"rc", "-p", port, "-d", clientIP, serverIP}, io.Discard),
		"no server")

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, command(ctx, []string{"rc", "-p", port, "-d", serverIP}, io.Discard), context.DeadlineExceeded)
}

// TestInvalidPeer connects a client that sends something else.
func TestInvalidPeer(t *testing.T) {
	tests := []struct{ name, sends, want string }{
		{"text", "GET / HTTP/1.1\r\nHost: localhost:18515\r\nAccept: */*\r\n\r\n", "is it a pingpong program"},
		{"silence", "", "i/o timeout"},
		{"no done", string(peer{QPN: 5, GID: gidOf(netip.MustParseAddr(clientIP))}.encode()) + "gone\x00",
			`"gone\x00" instead of "done\x00"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			testenv.Addresses(t, testenv.RoCEv2Port, serverIP, clientIP)
			port := freePort(t)
			so := &testenv.Output{}
			listens := so.Seen("\n")
			done := make(chan error, 1)
			go func() {
				done <- command(t.Context(), []string{"rc", "-p", port, "-d", serverIP, "--timeout", "300ms"}, so)
			}()
			<-listens
			c, err := net.Dial("tcp", serverIP+":"+port)
			require.NoError(t, err)
			defer c.Close()
			_, err = io.WriteString(c, tt.sends)
			require.NoError(t, err)
			require.ErrorContains(t, <-done, tt.want)
		})
	}
}
