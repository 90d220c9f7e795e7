package mlx4

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shell returns the program and arguments that run a command line.
func shell(line string) []string { return []string{"busybox", "sh", "-c", line} }

// A transfer sends random bytes between the network interfaces of the guests, from the second to the first.
const (
	transferPort = 7000
	transferKiB  = 2048
	// Busybox's nc ends when its input does, so the receiver's input is a FIFO that stays open.
	receiveLine = "busybox mkfifo /fifo; busybox nc -l -p %d <>/fifo | busybox sha256sum"
	sendLine    = "busybox dd if=/dev/urandom of=/data bs=1024 count=%d 2>/dev/null; busybox nc %v %d </data; " +
		"busybox sha256sum </data"
)

// ethtoolStats returns the counters that ethtool -S prints.
func ethtoolStats(text string) map[string]int64 {
	m := map[string]int64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if v, err := strconv.ParseInt(value, 10, 64); ok && err == nil {
			m[name] = v
		}
	}
	return m
}

// transfer runs a TCP connection between the cards' network interfaces, checks its data, and requires that the
// statistics of both drivers and cards agree with it.
func (p *pair) transfer(t *testing.T, ctx context.Context) {
	t.Helper()
	if len(installed(netPrograms)) == 0 {
		t.Skip("ethtool is not installed")
	}
	p.copy(t, ctx, cardAddr(0))

	// The driver reads the card's counters a few times in a second.
	const frames = transferKiB * 1024 / 1500
	var got, from map[string]int64
	agree := func() bool {
		got = ethtoolStats(run(t, ctx, p.guests[0], "ethtool", "-S", netdev))
		from = ethtoolStats(run(t, ctx, p.guests[1], "ethtool", "-S", netdev))
		return got["rx_novlan_packets"] == got["rx_packets"] && from["tx_novlan_packets"] == from["tx_packets"] &&
			got["rx_novlan_packets"] > frames && from["tx_novlan_packets"] > frames
	}
	if !assert.Eventually(t, agree, patience, poll) {
		t.Logf("receiver: %v\nsender: %v", got, from)
	}
	assert.GreaterOrEqual(t, from["tx_novlan_packets"], got["rx_novlan_packets"], "nobody else sends")
	assert.Greater(t, got["rx_novlan_bytes"], int64(transferKiB*1024))
	assert.Greater(t, from["tx_novlan_bytes"], int64(transferKiB*1024))
	assert.Positive(t, from["tso_packets"], "large sends")
	assert.Positive(t, from["tx_chksum_offload"], "checksums of sent packets")
	assert.Greater(t, got["rx_csum_good"], int64(frames)/2, "checksums of received packets")
	for _, name := range []string{"rx_dropped", "rx_length_errors", "rx_crc_errors", "rx_fifo_errors", "tx_dropped"} {
		assert.Zero(t, got[name], name)
		assert.Zero(t, from[name], name)
	}
}

// copy sends data to an address of the first guest by TCP, and compares them.
func (p *pair) copy(t *testing.T, ctx context.Context, to netip.Addr) {
	t.Helper()
	s, err := p.guests[0].Start(ctx, shell(fmt.Sprintf(receiveLine, transferPort))...)
	require.NoError(t, err)
	require.NoError(t, p.guests[0].WaitListen(ctx, transferPort))
	sent := run(t, ctx, p.guests[1], shell(fmt.Sprintf(sendLine, transferKiB, to, transferPort))...)
	r, err := s.Wait()
	require.NoError(t, err)
	require.Regexp(t, `^[0-9a-f]{64} `, sent)
	require.Equal(t, sent, r.Stdout, "the data differ: %s", r.Stderr)
}
