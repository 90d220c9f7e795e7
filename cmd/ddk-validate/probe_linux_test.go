package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/suite/cisuite"
)

func TestSNMPCounters(t *testing.T) {
	text := "Ip: Forwarding DefaultTTL\nIp: 1 64\n" +
		"Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 8 0 2 9 7\n" +
		"UdpLite: RcvbufErrors\nUdpLite: 3\n"
	assert.EqualValues(t, 7, udpCounter(text, "RcvbufErrors"))
	assert.Zero(t, udpCounter(text, "Nosuch"))
	assert.Zero(t, udpCounter("Udp: RcvbufErrors\n", "RcvbufErrors"))
	assert.Zero(t, udpCounter("", "RcvbufErrors"))
	assert.EqualValues(
		t, 12, snmp6Counter("Ip6InReceives 4\nUdp6RcvbufErrors                \t12\n", "Udp6RcvbufErrors"),
	)
	assert.Zero(t, snmp6Counter("", "Udp6RcvbufErrors"))
}

// TestLinkProbe checks that loopback loses nothing unless a socket's buffer overflows, which the kernel counts.
func TestLinkProbe(t *testing.T) {
	to := netip.MustParseAddr("127.0.0.3")
	p := newLinkProbe(to, func(f func() error) error { return f() })
	sent, lost, err := p.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, probeCount, sent)
	t.Logf("%d lost (the count includes sockets of other processes)", lost)

	overflow(t, to)
	_, after, err := p.run(t.Context())
	require.NoError(t, err)
	assert.Greater(t, after, lost)
}

// overflow sends more to a socket than its buffer can hold.
func overflow(t *testing.T, to netip.Addr) {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 0)))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetReadBuffer(4096))
	for range 64 {
		_, err := c.WriteToUDPAddrPort(make([]byte, 1024), c.LocalAddr().(*net.UDPAddr).AddrPort())
		require.NoError(t, err)
	}
}

// TestLossyLink checks that a correct driver over a link that drops many packets is inconclusive and does not fail,
// both with UD and with RC, whose retries do not suffice.
func TestLossyLink(t *testing.T) {
	testenv.Long(t)
	d := drivers()[0]
	open := d.Open
	d.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		o.Impair = true
		target, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		target.Probe = func(context.Context) (sent, lost int, err error) { return probeCount, probeCount / 2, nil }
		return target, target.Impair(validate.Impairment{Seed: 1, Drop: 0.8})
	}
	p := validate.Plan{
		Catalog: cisuite.Catalog(), Driver: d, Select: validate.Selection{Cases: []string{"ud.sizes", "rc.send.sizes"}},
		Setting: validate.Setting{
			Profile: "full", Scale: 0.05, Options: validate.Options{Seed: 1, Link: "udp", Run: os.Getpid()},
		},
	}
	r, err := p.Run(t.Context())
	require.NoError(t, err)
	for _, x := range r.Results {
		assert.Equal(t, validate.Inconclusive, x.Status, "%s: %+v", x.Case, x.Failures)
		assert.Len(t, x.Attempts, 4)
	}
	assert.Equal(t, validate.ExitInconclusive, r.Exit())
}
