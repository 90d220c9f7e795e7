package linux

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/test/linux/guest"
)

// deal is a run of a program of librdmacm against cmpeer.
type deal struct {
	name        string
	linux, ours []string // the programs without addresses
	v6          bool
}

// TestRDMACM runs several concurrent connections in two port spaces, and datagrams by SIDR, with both IP versions and
// in both roles.
func TestRDMACM(t *testing.T) {
	l := useLab(t)
	var rec recording
	deals := []deal{
		{name: "ucmatose", linux: []string{"ucmatose"}, ours: []string{"connect"}},
		{name: "ucmatose,4 connections of 20 messages", linux: []string{"ucmatose", "-c", "4", "-C",
			"20", "-S", "3000"},
			ours: []string{"connect", "-c", "4", "-C", "20", "-S", "3000"}},
		{name: "ucmatose,port space IB", linux: []string{"ucmatose", "-P", "ib"}, ours: []string{"connect", "--ib"}},
		{name: "ucmatose,IPv6", linux: []string{"ucmatose", "-c", "2"}, ours: []string{"connect", "-c", "2"}, v6: true},
		{name: "udaddy", linux: []string{"udaddy"}, ours: []string{"datagram"}},
		{name: "udaddy,3 peers", linux: []string{"udaddy", "-c", "3", "-S", "1001"},
			ours: []string{"datagram", "-c", "3", "-S", "1001"}},
		{name: "udaddy,IPv6", linux: []string{"udaddy"}, ours: []string{"datagram"}, v6: true},
	}
	for _, d := range deals {
		for role, linuxServes := range map[string]bool{"linux is the server/": true, "linux is the client/": false} {
			t.Run(role+d.name, func(t *testing.T) { l.deal(t, &rec, d, linuxServes) })
		}
	}
	t.Run("tshark", rec.dissect)
}

func (l *lab) deal(t *testing.T, rec *recording, d deal, linuxServes bool) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e := l.ends(d.v6)
	ours := append([]string{l.cmpeer, d.ours[0], e.ours().String()}, d.ours[1:]...)
	theirs := append([]string{}, d.linux...)
	theirs = append(theirs, "-b", e.theirs().String())
	sent := rec.record(t, l, func() {
		var s, c *guest.Process
		var err error
		if linuxServes {
			s = e.serveLinux(t, ctx, theirs...)
			c, err = l.net.Start(ctx, append(ours, "-s", e.theirs().String())...)
		} else {
			s = e.serveOurs(t, ctx, ours...)
			c, err = l.linux.Start(ctx, append(theirs, "-s", e.ours().String())...)
		}
		require.NoError(t, err)
		finish(t, cancel, s, c)
	})
	require.Len(t, sent, 2, "addresses that sent RoCEv2")
}

// finish waits for two programs, of which c ends first, and checks that both have succeeded.
func finish(t *testing.T, cancel context.CancelFunc, s, c *guest.Process) {
	t.Helper()
	server, client := succeed(t, cancel, s, c)
	out := report(server, client)
	for _, r := range []guest.Result{server, client} {
		// the latter of rdma_client, rdma_server
		ended := strings.Contains(r.Stdout, "data transfers complete") || strings.Contains(r.Stdout, "end 0")
		assert.True(t, ended, out)
		assert.NotContains(t, r.Stdout+r.Stderr, "fail", out)
	}
}

// TestRDMACMPair: rdma_server and rdma_client, which use the functions of librdmacm that do several steps at once, and
// rdma_xserver and rdma_xclient, of which only the client sends.
func TestRDMACMPair(t *testing.T) {
	l := useLab(t)
	var rec recording
	e := l.ends(false)
	ours := []string{l.cmpeer, "connect", e.ours().String(), "--first", "-C", "1", "-S", "16"}
	for role, run := range map[string]func(*testing.T, context.Context) (s, c *guest.Process, err error){
		"linux is the server": func(t *testing.T, ctx context.Context) (s, c *guest.Process, err error) {
			s = e.serveLinux(t, ctx, "rdma_server")
			c, err = l.net.Start(ctx, append(ours, "-s", e.theirs().String())...)
			return s, c, err
		},
		"linux is the client": func(t *testing.T, ctx context.Context) (s, c *guest.Process, err error) {
			s = e.serveOurs(t, ctx, ours...)
			c, err = l.linux.Start(ctx, "rdma_client", "-s", e.ours().String())
			return s, c, err
		},
		"one way/linux is the server": func(t *testing.T, ctx context.Context) (s, c *guest.Process, err error) {
			s = e.serveLinux(t, ctx, "rdma_xserver")
			c, err = l.net.Start(ctx, append(ours, "--one-way", "-s", e.theirs().String())...)
			return s, c, err
		},
		"one way/linux is the client": func(t *testing.T, ctx context.Context) (s, c *guest.Process, err error) {
			s = e.serveOurs(t, ctx, append(ours, "--one-way")...)
			c, err = l.linux.Start(ctx, "rdma_xclient", "-s", e.ours().String())
			return s, c, err
		},
	} {
		t.Run(role, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			rec.record(t, l, func() {
				s, c, err := run(t, ctx)
				require.NoError(t, err)
				finish(t, cancel, s, c)
			})
		})
	}
	t.Run("our server is slow", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		sent := rec.record(t, l, func() {
			// Linux would repeat the request after 6.3 s
			s := e.serveOurs(t, ctx, l.cmpeer, "connect", e.ours().String(), "--slow", "7s")
			c, err := l.linux.Start(ctx, "ucmatose", "-s", e.ours().String())
			require.NoError(t, err)
			finish(t, cancel, s, c)
		})
		messages := map[byte]int{}
		for _, f := range rec.last {
			if at, ok := cmAttribute(f.data); ok {
				messages[at]++
			}
		}
		assert.Equal(t, 1, messages[0x10], "REQ: the MRA keeps Linux from asking again; %v", messages)
		assert.Equal(t, 1, messages[0x11], "MRA")
		assert.Equal(t, 1, messages[0x13], "REP")
		assert.Len(t, sent, 2)
	})
	t.Run("we know nothing of the answer", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		rec.record(t, l, func() {
			s := e.serveLinux(t, ctx, "ucmatose", "-b", e.theirs().String())
			c, err := l.net.Start(ctx, l.cmpeer, "forget", e.ours().String(), "-s", e.theirs().String())
			require.NoError(t, err)
			r, err := c.Wait()
			require.NoError(t, err)
			assert.Zero(t, r.Code, r.Stderr)
			require.NoError(t, s.WaitOutput(ctx, "RDMA_CM_EVENT_REJECTED, error: 6"),
				"invalid communication ID, at once: Linux does not ask until it has used up its retries")
			cancel()
			_, _ = s.Wait() // it was killed
		})
	})
	t.Run("our server refuses", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		rec.record(t, l, func() {
			s := e.serveOurs(t, ctx, l.cmpeer, "connect", e.ours().String(), "--no")
			r, err := l.linux.Run(ctx, "ucmatose", "-s", e.ours().String())
			require.NoError(t, err)
			assert.Contains(t, r.Stdout+r.Stderr, "RDMA_CM_EVENT_REJECTED, error: 28", "consumer reject")
			res, err := s.Wait()
			require.NoError(t, err)
			assert.Zero(t, res.Code, res.Stderr)
		})
	})
	t.Run("tshark", rec.dissect)
}

// TestRDMACMGroup: a multicast group, sending and receiving. Of IPv4, for Linux answers a join of an IPv6 group on
// RoCEv2 with ENOTSUPP.
func TestRDMACMGroup(t *testing.T) {
	l := useLab(t)
	var rec recording
	const group, mac = "239.1.2.3", "01005e010203"
	e := l.ends(false)
	for ourRole, from := range map[string]netip.Addr{"we send": e.ours(), "we receive": e.theirs()} {
		t.Run(ourRole, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			theirs := []string{"mckey", "-m", group, "-b", e.theirs().String(), "-S", "777"}
			ours := []string{l.cmpeer, "group", e.ours().String(), "-m", group, "-S", "777"}
			sent := rec.record(t, l, func() {
				var receiver, sender *guest.Process
				var err error
				if ourRole == "we send" {
					receiver, err = l.linux.Start(ctx, theirs...)
					require.NoError(t, err)
					l.waitGroup(t, ctx, mac)
					sender, err = l.net.Start(ctx, append(ours, "--send")...)
				} else {
					receiver, err = l.net.Start(ctx, ours...)
					require.NoError(t, err)
					require.NoError(t, receiver.WaitOutput(ctx, "joined "+group))
					sender, err = l.linux.Start(ctx, append(theirs, "-s")...)
				}
				require.NoError(t, err)
				finish(t, cancel, receiver, sender)
			})
			assert.Equal(t, map[netip.Addr]int{from: 10}, sent, "datagrams to the group")
		})
	}
	t.Run("tshark", rec.dissect)
}

// cmAttribute returns the lower byte of the attribute ID of a CM message in an IPv4 frame.
func cmAttribute(frame []byte) (byte, bool) {
	const mad = etherLen + 20 + 8 + 12 + 8 // IPv4, UDP, BTH, DETH
	if p, ok := parse(frame); !ok || p.opcode != 0x64 || len(frame) < mad+24 || frame[mad+1] != 7 {
		return 0, false
	}
	return frame[mad+17], true
}

// waitGroup waits until the guest's interface receives a group.
func (l *lab) waitGroup(t *testing.T, ctx context.Context, mac string) {
	t.Helper()
	for {
		r, err := l.linux.Run(ctx, "agent", "cat", "/proc/net/dev_mcast")
		require.NoError(t, err)
		if strings.Contains(r.Stdout, mac) {
			return
		}
	}
}
