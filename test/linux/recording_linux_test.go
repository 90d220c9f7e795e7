package linux

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/pcapfile"
	"ciddk/internal/testenv"
	"ciddk/internal/tsharktest"
)

// frame is one Ethernet frame of a capture.
type frame struct {
	at   time.Time
	data []byte
}

// recording collects the frames of several runs for a single run of tshark, because starting tshark takes longer than
// decoding.
type recording struct {
	frames  [][]byte
	packets int     // RoCEv2 packets among them
	last    []frame // only of the last run
}

// record captures packets while f runs, and checks their ICRCs. It returns the number of RoCEv2 packets by source
// address.
func (r *recording) record(t *testing.T, l *lab, f func()) map[netip.Addr]int {
	t.Helper()
	var b bytes.Buffer
	capture, err := l.linux.Capture(&b)
	require.NoError(t, err)
	func() {
		defer func() {
			assert.NoError(t, capture.Stop())
			if t.Failed() {
				logLast(t, &b, 30)
			}
		}()
		f()
	}()
	r.last, err = frames(&b)
	require.NoError(t, err)
	sent := map[netip.Addr]int{}
	for i, f := range r.last {
		r.frames = append(r.frames, f.data)
		p, ok := parse(f.data)
		if !ok {
			continue
		}
		a, _ := netip.AddrFromSlice(p.source) // 4 or 16 bytes
		sent[a]++
		r.packets++
		require.NoError(t, p.checksum, "frame %d from %v", i+1, a)
	}
	return sent
}

// logLast logs the last n RoCEv2 packets of a pcap file, which show who waits for whom.
func logLast(t *testing.T, pcap io.Reader, n int) {
	list, err := frames(pcap)
	assert.NoError(t, err)
	var lines []string
	for _, f := range list {
		if p, ok := parse(f.data); ok {
			lines = append(lines, fmt.Sprintf("%s from %v: opcode %#02x, PSN %#06x, %d bytes",
				f.at.Format("05.000000"), net.IP(p.source), p.opcode, p.psn, len(f.data)))
		}
	}
	t.Logf("the last of %d packets:\n%s", len(lines), strings.Join(lines[max(0, len(lines)-n):], "\n"))
}

// frames parses a pcap file.
func frames(pcap io.Reader) (list []frame, err error) {
	r, err := pcapgo.NewNgReader(pcap, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		return nil, err
	}
	for {
		data, ci, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, frame{at: ci.Timestamp, data: data})
	}
}

// ofRoCE is a display filter for RoCEv2 that excludes packets quoted in ICMP errors, since an acknowledgement may
// arrive after a program has ended.
const ofRoCE = `frame.protocols matches "^eth:ethertype:(ip|ipv6):udp:infiniband"`

// dissect runs tshark on the recording. tshark must identify all packets as RoCEv2, report no errors, and find no NAK
// except for lost packets.
func (r *recording) dissect(t *testing.T) {
	_, err := exec.LookPath("tshark")
	testenv.Linux(t, err)
	rows := tsharktest.ReadMatching(t, tsharktest.Write(t, pcapfile.Ethernet, r.frames), ofRoCE,
		"infiniband.aeth.syndrome.error_code")
	require.Len(t, rows, r.packets, "packets that tshark takes for RoCEv2")
	lost := 0
	for _, row := range rows {
		if row[0] != "" {
			require.Equal(t, "0", row[0], "a NAK for other reasons than a PSN sequence error")
			lost++
		}
	}
	t.Logf("%d packets, %d NAKs for lost ones", r.packets, lost)
}
